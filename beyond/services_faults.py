"""One line that names your task, for whatever a function of yours raises in another process."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from torch import Tensor

from beyond.lab_checks import LabError, how_to_test

HANGS = {  # what runs in a call that does not come back
    "generate": "sample_group", "train_step": "group_advantages, k3_kl or grpo_loss",
    "score": "the reward",
}


class Fault(RuntimeError):
    """A function of yours failed; the text is one line and names it."""


def line_of(error: BaseException) -> str:
    """Return an exception as one line: its type, and what it says."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:300].rstrip(": ")


@contextmanager
def named(lab: ModuleType, task: str) -> Iterator[None]:
    """Turn what a lab file's function raises into a Fault, which travels between processes.

    Args:
        lab: from plugins.load_student.
        task: the function that is called; what it calls in the lab file is named in its place.

    Raises:
        Fault: also for what it returns, if this block cannot use it.
        LabError: as it is.
    """
    from tests.labfile import NUMBER_OF

    try:
        yield
    except LabError:  # load_student's functions say most of it themselves
        raise
    except (Exception, SystemExit) as error:
        line, trace = "", error.__traceback__
        while trace is not None:
            code = trace.tb_frame.f_code
            if code.co_filename == lab.__file__:
                line = f" line {trace.tb_lineno}"
                task = code.co_name if code.co_name in NUMBER_OF else task
            trace = trace.tb_next
        n = NUMBER_OF[task]
        raise Fault(f"Task {n}, {task} ({os.path.basename(lab.__file__ or '')}{line}): "
                    f"{line_of(error)}. Test: {how_to_test(n, lab.__file__ or '')}"
                    ) from None


def checked(adv: Any, rows: int) -> Tensor:
    """Return advantages if they are (rows,).

    Raises:
        TypeError, ValueError: they are not.
    """
    if not isinstance(adv, Tensor):
        raise TypeError(f"returned {type(adv).__name__}, no tensor")
    if adv.shape != (rows,):
        raise ValueError(f"returned shape {tuple(adv.shape)}, wanted ({rows},)")
    return adv
