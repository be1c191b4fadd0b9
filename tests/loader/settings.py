"""Find, name and put back what a student's code switches for the whole process.

    before = look()
    ...                      # a file is loaded, a test runs
    changed = put_back(before)   # ["the default device is cuda (torch.set_default_device)"]

Made of the standard library alone, like labfile.py; of torch and numpy only what is imported.
"""

import contextlib
import gc
import os
import random
import signal
import sys
import warnings
from collections.abc import Callable
from typing import NamedTuple


class Setting(NamedTuple):
    """One setting of the process.

    name: the words for another value, with {} in its place; "" if setting it is no mistake and
        needs no report.
    get: returns its value, something that can be compared.
    put: sets it to such a value.
    """

    name: str
    get: Callable
    put: Callable


# ============================================================== PyTorch and numpy


def _device():
    """Return the default device; None where there is none but the usual one."""
    torch = sys.modules["torch"]
    # get_default_device() itself fails where the device is missing.
    context = getattr(torch, "_GLOBAL_DEVICE_CONTEXT", None)
    return getattr(getattr(context, "device_context", None), "device", None)


def _put_inference(on):
    """Switch inference mode; kept for as long as the next switch, which is what ends it."""
    mode = sys.modules["torch"].inference_mode(on)
    mode.__enter__()
    _kept.append(mode)


_kept: list = []


def _autocast():
    torch = sys.modules["torch"]
    return torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")


def _put_autocast(value):
    torch = sys.modules["torch"]
    torch.set_autocast_enabled("cpu", value[0])
    torch.set_autocast_dtype("cpu", value[1])


def _deterministic():
    torch = sys.modules["torch"]
    return (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )


def _print_options():
    """Return torch's print options; there is no public function for it."""
    options = vars(sys.modules["torch"]._tensor_str.PRINT_OPTS)
    return dict(options)


def _torch(torch):
    yield Setting("the default device is {} (torch.set_default_device)",
                  _device, torch.set_default_device)
    yield Setting("the default dtype is {} (torch.set_default_dtype)",
                  torch.get_default_dtype, torch.set_default_dtype)
    yield Setting("inference mode is {} (torch.inference_mode)",
                  torch.is_inference_mode_enabled, _put_inference)
    yield Setting("recording of gradients is {} (torch.set_grad_enabled)",
                  torch.is_grad_enabled, torch.set_grad_enabled)
    yield Setting("autocast on the CPU is {} (torch.autocast)", _autocast, _put_autocast)
    yield Setting("deterministic algorithms are {} (torch.use_deterministic_algorithms)",
                  _deterministic,
                  lambda v: torch.use_deterministic_algorithms(v[0], warn_only=v[1]))
    yield Setting("anomaly detection is {} (torch.autograd.set_detect_anomaly)",
                  lambda: (torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()),
                  lambda v: torch.autograd.set_detect_anomaly(*v))
    yield Setting("", torch.get_num_threads, torch.set_num_threads)
    yield Setting("", torch.get_float32_matmul_precision, torch.set_float32_matmul_precision)
    yield Setting("", _print_options,
                  lambda v: vars(torch._tensor_str.PRINT_OPTS).update(v))


def _numpy(numpy):
    yield Setting("numpy's handling of errors is {} (numpy.seterr)",
                  numpy.geterr, lambda v: numpy.seterr(**v))
    yield Setting("", numpy.get_printoptions, _put_numpy_print_options)


def _put_numpy_print_options(options):
    sys.modules["numpy"].set_printoptions(**options)


# ============================================================== Python


def _handlers():
    """Return the handlers of the signals that a program is stopped with."""
    names = ("SIGINT", "SIGTERM", "SIGALRM", "SIGSEGV", "SIGABRT")
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    return {number: signal.getsignal(number) for number in numbers}


def _put_handlers(handlers):
    for number, handler in handlers.items():
        if handler is not None and signal.getsignal(number) is not handler:
            with contextlib.suppress(ValueError, OSError):  # not in the main thread
                signal.signal(number, handler)


def _folder():
    try:
        return os.getcwd()
    except OSError:  # it is gone
        return None


def _put_folder(path):
    if path is not None:
        with contextlib.suppress(OSError):
            os.chdir(path)


def _put_streams(streams):
    sys.stdin, sys.stdout, sys.stderr = streams


def _put_environ(values):
    for name in set(os.environ) - set(values):
        del os.environ[name]
    for name, value in values.items():
        if os.environ.get(name) != value:
            os.environ[name] = value


def _put_warnings(filters):
    warnings.filters[:] = filters
    if hasattr(warnings, "_filters_mutated"):  # or the change is not noticed
        warnings._filters_mutated()


def _put_gc(on):
    (gc.enable if on else gc.disable)()


def _put_path(path):
    sys.path[:] = path


PYTHON = (
    Setting("the limit of recursion is {} (sys.setrecursionlimit)",
            sys.getrecursionlimit, sys.setrecursionlimit),
    Setting("a handler of signals was replaced (signal.signal)", _handlers, _put_handlers),
    Setting("", gc.isenabled, _put_gc),
)
# What later lines of the same file may count on.
PLACE = (
    Setting("the working folder is {} (os.chdir)", _folder, _put_folder),
    Setting("sys.stdin, sys.stdout or sys.stderr was replaced",
            lambda: (sys.stdin, sys.stdout, sys.stderr), _put_streams),
    Setting("", lambda: dict(os.environ), _put_environ),
    Setting("", lambda: list(warnings.filters), _put_warnings),
    Setting("", lambda: list(sys.path), _put_path),
)


# ============================================================== functions that were replaced

# A file that writes to one of these changes it for everyone.
WATCHED = ("builtins", "math", "random", "torch", "torch.Tensor", "torch.nn.functional",
           "torch.nn.utils", "torch.optim", "tinylm", "tinylm.TinyLM")


def _spaces():
    """Yield (name, module or class) of what is there of WATCHED."""
    for name in WATCHED:
        module, _, attribute = name.rpartition(".")
        if name in sys.modules:
            yield name, sys.modules[name]
        elif module in sys.modules and isinstance(
            found := getattr(sys.modules[module], attribute, None), type
        ):
            yield name, found


def functions():
    """Return {name: (module or class, its attributes)} to compare with later."""
    return {name: (space, dict(vars(space))) for name, space in _spaces()}


def put_functions_back(before):
    """Undo what was written over the functions of other modules; return a line for each."""
    changed = []
    for name, (space, attributes) in before.items():
        now = vars(space)
        for key, value in attributes.items():
            operator = key.startswith("__") and isinstance(space, type)
            if now.get(key) is value or (key.startswith("_") and not operator):
                continue
            if callable(value):
                setattr(space, key, value)
                changed.append(f"{name}.{key} was replaced")
        for key in set(now) - set(attributes) if isinstance(space, type) else ():
            if any(hasattr(base, key) for base in space.__mro__[1:]):  # hides an inherited one
                delattr(space, key)
                changed.append(f"{name}.{key} was replaced")
    return changed


# ============================================================== all of them


def _settings(place):
    settings = list(PYTHON)
    if place:
        settings += PLACE
    if "torch" in sys.modules and hasattr(sys.modules["torch"], "set_default_device"):
        settings += _torch(sys.modules["torch"])
    if "numpy" in sys.modules and hasattr(sys.modules["numpy"], "set_printoptions"):
        settings += _numpy(sys.modules["numpy"])
    return settings


def look(place=True):
    """Return the settings with their values now.

    Args:
        place: with those that later lines of a file may count on: folder, streams, environment.
    """
    return [(setting, setting.get()) for setting in _settings(place)]


def put_back(before):
    """Set everything back to what look() saw; return a line for each change to report."""
    changed = []
    for setting, value in before:
        now = setting.get()
        if now == value:
            continue
        setting.put(value)
        if setting.name:
            changed.append(setting.name.format(_shown(now)))
    return changed


def _shown(value):
    if isinstance(value, tuple):
        value = value[0]
    if isinstance(value, dict):
        return "another one"
    return ("on" if value else "off") if isinstance(value, bool) else value


def fresh():
    """Set what a test counts on: the defaults of PyTorch, one thread."""
    torch = sys.modules["torch"]
    usual = {
        _device: None, torch.get_default_dtype: torch.float32, torch.is_grad_enabled: True,
        torch.is_inference_mode_enabled: False, _deterministic: (False, False),
        torch.get_num_threads: 1,
    }
    for setting in _torch(torch):
        if setting.get in usual and setting.get() != usual[setting.get]:
            setting.put(usual[setting.get])


@contextlib.contextmanager
def random_states():
    """Leave the random generators of Python, PyTorch and numpy as they were."""
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    states = random.getstate(), torch and torch.get_rng_state()
    numpy_state = numpy and numpy.random.get_state()
    try:
        yield
    finally:
        random.setstate(states[0])
        if torch:
            torch.set_rng_state(states[1])
        if numpy:
            numpy.random.set_state(numpy_state)


@contextlib.contextmanager
def kept():
    """Put back what a test leaves switched; an error gets the list of it as `switched`.

    Of the replaced functions only those are looked at that PyTorch itself never touches.
    """
    names = ("builtins", "math", "random", "tinylm", "tinylm.TinyLM")
    before, owned = look(), {k: v for k, v in functions().items() if k in names}
    try:
        yield
    except BaseException as error:
        with contextlib.suppress(Exception):  # an exception class of the student's own
            error.switched = put_back(before) + put_functions_back(owned)
        raise
    finally:
        put_back(before)
        put_functions_back(owned)
