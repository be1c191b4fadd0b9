"""What an exception of Python or PyTorch means in a student's function, in a sentence.

One table: a pattern on the exception's class, one on its text and, for a few, one on the line of
code. The patterns are whole phrases that Python or PyTorch writes, loose where their versions
differ. A sentence tells what happened and where to look; it never holds the right code. Made of
the standard library alone.
"""

import builtins
import difflib
import re
from typing import NamedTuple


class Advice(NamedTuple):
    """One row: classes and text of an exception, its sentence, and a pattern on the line of code.

    The sentence may use the groups of `text`: {0} is the first one.
    """

    classes: str
    text: str
    sentence: str
    code: str = ""


NOTHING = (
    "The value is None: a function without return gives None, and so do methods that work in "
    "place, such as list.append."
)
PAIR = (
    "max, min, median and sort with a dim return a pair, the values and their indices, and here "
    "the whole pair is used."
)
CUT_OFF = (
    "Between the parameters and this tensor the gradient was cut off: no_grad, detach, .item(), "
    ".data, float() and torch.tensor() do that, and so does a model that is frozen."
)
IN_PLACE = "(+=, -=, *=, x[...] = ..., or a method whose name ends in _)"
KEYS = ("out", "responses", "rewards", "ids", "prompt_len", "mask", "kl", "clip_frac",
        "ratio_max", "loss", "reward", "frac_zero_signal", "entropy")
FIELDS = ("iters", "prompts_per_iter", "G", "inner_steps", "lr", "clip_eps", "beta", "temperature",
          "scale_std", "max_grad_norm", "eval_every", "eval_n", "seed")
MODULES = {"torch", "F", "nn", "np", "numpy", "math", "random", "time", "os", "tinylm",
           "functools", "itertools", "copy"}

TABLE = [Advice(*row) for row in (
    # ------------------------------------------------------------ shapes
    ("RuntimeError", r"size of tensor a \((\d+)\) must match the size of tensor b \((\d+)\) at "
     r"non-singleton dimension (\d+)",
     "Sizes {0} and {1} meet along dim {2}. Which axis belongs to which? Print both shapes."),
    ("RuntimeError", r"shape '(.*)' is invalid for input of size (\d+)",
     "view and reshape only rearrange entries: the sizes of the shape must multiply to {1}, "
     "the number of entries."),
    ("RuntimeError", r"view size is not compatible with input tensor's size and stride",
     "view needs entries that lie in memory in this order; after a transpose they do not."),
    ("RuntimeError", r"expanded size of the tensor \((\d+)\) must match the existing size \((\d+)\)"
     r" at non-singleton dimension (\d+)",
     "expand repeats along dims of size 1 only; here dim {2} has the size {1}. " +
     "Print the shape."),
    ("RuntimeError", r"number of sizes provided \((\d+)\) must be greater or equal to the number "
     r"of dimensions|Number of dimensions of repeat dims can not be smaller",
     "Fewer sizes are given than the tensor has dims. Print its shape."),
    ("RuntimeError", r"stack expects each tensor to be equal size",
     "torch.stack joins tensors of one and the same shape; these differ."),
    ("RuntimeError", r"Sizes of tensors must match except in dimension (\d+)",
     "torch.cat joins tensors whose sizes agree in every dim but dim {0}; these do not."),
    ("RuntimeError", r"zero-dimensional tensor .* cannot be concatenated",
     "torch.cat joins rows; these are single numbers, without any dim."),
    ("RuntimeError", r"mat1 and mat2 shapes cannot be multiplied|size mismatch, got input|"
     r"inconsistent tensor size, expected tensor|1D tensors expected, but got|"
     r"Expected size for first two dimensions of batch2|matrices expected, got|"
     r"dot : expected both vectors",
     "This is a product of matrices or vectors (@, matmul, mm, dot), which sums over an axis. Did "
     "you mean a product entry by entry?"),
    ("RuntimeError", r"output with shape .* doesn't match the broadcast shape",
     f"The result of an operation in place {IN_PLACE} has another shape than the tensor that it "
     "is to be written into."),
    ("RuntimeError|ValueError", r"shape mismatch: value tensor of shape",
     "What is to the right of = does not have the shape of the part of the tensor to its left."),
    ("IndexError|RuntimeError", r"Dimension out of range \(expected to be in range of \[(.*)\], "
     r"but got (-?\d+)\)",
     "There is no dim {1} in this tensor, only dims in the range [{0}]. Print its shape."),
    ("IndexError", r"Dimension specified as (-?\d+) but tensor has no dimensions",
     "The tensor is a single number and has no dims. Was a mean or sum taken too early?"),
    ("IndexError", r"too many indices for tensor",
     "A tensor is indexed with a string. Did you mean the dict that it was taken from?",
     r"\[['\"]"),
    ("IndexError", r"too many indices for (?:tensor of dimension (\d+)|array)",
     "There are more indices in the brackets than the tensor has dims. Print its shape."),
    ("IndexError", r"The shape of the mask (\[.*\]) at index \d+ does not match the shape of the "
     r"indexed tensor (\[.*\])",
     "The mask in the brackets has the shape {0}, the tensor the shape {1}; they must be equal."),
    ("IndexError", r"index (-?\d+) is out of bounds for (?:dimension|axis) (\d+) with size (\d+)",
     "Counting starts at 0: along dim {1}, of size {2}, there is no place {0}."),
    ("IndexError", r"(list|tuple|string) (?:assignment )?index out of range",
     "The {0} is shorter than the index supposes; counting starts at 0. Print its len()."),
    ("IndexError", r"invalid index of a 0-dim tensor",
     "The tensor is a single number; there is nothing to index."),
    ("IndexError", r"^only integers, slices",
     "A tensor or array is indexed with something that is not an integer or a slice, perhaps a "
     "string. Did you mean the dict that it was taken from?"),
    ("IndexError|RuntimeError", r"tensors used as indices must be long",
     "The indices must be whole numbers or booleans; these are floating-point numbers."),
    ("RuntimeError|ValueError", r"number of dimensions in the tensor input does not match the "
     r"length of the desired ordering",
     "permute needs every dim of the tensor once. Print its shape."),
    # ------------------------------------------------------------ one number, many numbers
    ("TypeError|ValueError|RuntimeError",
     r"only one element tensors can be converted to Python scalars|a Tensor with \d+ elements "
     r"cannot be converted to Scalar|only (?:length-1|0-dimensional) arrays can be converted",
     "The functions of math work on one number, and this is a tensor of many. A function that "
     "works on every entry (and keeps the gradient) comes from torch.", r"\bmath\.\w+\("),
    ("TypeError|ValueError|RuntimeError",
     r"only one element tensors can be converted to Python scalars|only (?:length-1|"
     r"0-dimensional) arrays can be converted",
     "torch.tensor takes numbers; in this list are tensors of several entries. Joining tensors "
     "has functions of its own, which keep the gradient.", r"\btensor\("),
    ("TypeError|ValueError|RuntimeError",
     r"only one element tensors can be converted to Python scalars|a Tensor with \d+ elements "
     r"cannot be converted to Scalar|only (?:length-1|0-dimensional) arrays can be converted",
     "One Python number is wanted here (float(), int(), .item() make one), and the tensor has "
     "many entries or none."),
    ("TypeError", r"only integer tensors of a single element can be converted to an index",
     "A whole number is wanted here (in range() or [...], say), and this is a tensor."),
    ("RuntimeError|ValueError", r"Boolean value of Tensor with more than one value is ambiguous|"
     r"truth value of an array with more than one element is ambiguous",
     "Python's {name} compares its arguments as wholes and needs one True or False; two tensors "
     "compare entry by entry. For entries, torch has a function of its own.",
     r"(?<![\w.])(?P<name>min|max|sorted)\("),
    ("RuntimeError", r"Boolean value of Tensor with more than one value is ambiguous", PAIR,
     r"\.(?:max|min|median|mode|sort|kthvalue)\((?:[^()]*,)?\s*(?:(?:dim|axis)\s*=\s*)?-?\d"),
    ("TypeError|AttributeError", r"torch\.return_types\.\w+", PAIR),
    ("RuntimeError|ValueError", r"Boolean value of Tensor with (?:more than one value|no values) "
     r"is ambiguous|truth value of an array with more than one element is ambiguous",
     "if, while, and, or, not and `in` need one True or False; a comparison of tensors gives one "
     "for every entry."),
    ("TypeError", r"iteration over a 0-d tensor",
     "The tensor is a single number; there is nothing to loop over or to unpack."),
    ("TypeError", r"len\(\) of a 0-d tensor",
     "The tensor is a single number and has no length."),
    ("TypeError", r"argument '?\w+'? \(position \d+\) must be (?:Tensor|tuple of Tensors), "
     r"not (\w+)|argument '\w+' must be Tensor, not (\w+)",
     "This function of torch works on tensors, and it got a {0}."),
    ("TypeError", r"expected Tensor as element \d+ in argument \d+, but got (\w+)",
     "torch.stack and torch.cat join tensors; in this list is a {0}."),
    ("TypeError", r"received an invalid combination of arguments",
     "This function or method of torch has no such arguments: compare their kinds and order with "
     "its documentation."),
    ("ValueError", r"expected sequence of length (\d+) at dim (\d+) \(got (\d+)\)",
     "The rows of the list have different lengths ({0} and {2}); a tensor has only equal ones."),
    ("ValueError|TypeError", r"too many dimensions 'str'|new\(\): invalid data type of 'str'|"
     r"can't convert np.ndarray of type numpy.str_",
     "A tensor holds numbers; this list holds texts."),
    ("RuntimeError|TypeError", r"Could not infer dtype of (\w+)",
     "A tensor holds numbers; this list holds a {0}."),
    # ------------------------------------------------------------ gradients
    ("RuntimeError", r"element 0 of tensors does not require grad", CUT_OFF),
    ("RuntimeError", r"grad can be implicitly created only for scalar outputs",
     "backward starts from one number; this tensor has several."),
    ("RuntimeError", r"Trying to backward through the graph a second time",
     "This backward runs through operations that an earlier one has used up. Compute a new "
     "loss for every backward, and let no constant carry a gradient of its own."),
    ("RuntimeError", r"modified by an inplace operation",
     f"A tensor was changed in place {IN_PLACE} or by an optimizer's step after it had been used; "
     "backward still needs its old values."),
    ("RuntimeError", r"leaf Variable that requires grad is being used in an in-place operation|"
     r"a view of a leaf Variable that requires grad is being used in an in-place operation",
     f"The line changes a tensor in place {IN_PLACE} that was given to the function, or a "
     "parameter. Make a new tensor instead."),
    ("RuntimeError", r"Output \d+ of \w+ is a view and (?:is being|its base or another view)",
     f"The line changes a part of another tensor in place {IN_PLACE}. Make a new tensor instead."),
    ("RuntimeError", r"Can't call numpy\(\) on Tensor that requires grad",
     "numpy does not keep gradients, so nothing that a gradient has to flow through may pass "
     "through it; the functions of math and numpy have counterparts in torch."),
    ("RuntimeError", r"Inference tensors cannot be saved for backward|Inplace update to inference "
     r"tensor outside InferenceMode",
     "A tensor that was made under torch.inference_mode can take no part in a gradient; under "
     "torch.no_grad it can."),
    ("RuntimeError", r"[Oo]nly Tensors of floating point (?:and complex )?dtype can require",
     "Whole numbers and booleans have no gradient."),
    ("RuntimeError", r"One of the differentiated Tensors (?:does not require grad|appears to not)",
     CUT_OFF),
    ("RuntimeError", r"you can only change requires_grad flags of leaf variables",
     "Only a parameter's requires_grad can be set, not that of a result."),
    # ------------------------------------------------------------ dtypes, devices
    ("RuntimeError", r"mean\(\): (?:could not infer output dtype|input dtype should be either)|"
     r"std and var (?:only )?support",
     "Means and stds exist for floating-point numbers; this tensor holds whole numbers or "
     "booleans."),
    ("RuntimeError", r"result type (\w+) can't be cast to the desired output type (\w+)",
     f"The operation works in place {IN_PLACE} on a tensor of type {{1}}, and its result is "
     "{0}."),
    ("RuntimeError", r"expected scalar type (\w+) but found (\w+)|"
     r"expected m1 and m2 to have the same dtype, but got: (\w+) != (\w+)|"
     r"Found dtype (\w+) but expected (\w+)",
     "Two tensors of different dtypes meet. Print the dtype of each."),
    ("RuntimeError", r"Expected all tensors to be on the same device|is not on the expected device|"
     r"Expected .* on the same device|but (?:got|found) .* on (?:cpu|cuda|mps)",
     "Two tensors of different devices meet: make new tensors on the device of those that were "
     "given."),
    ("AssertionError|RuntimeError", r"Torch not compiled with CUDA enabled|Found no NVIDIA driver|"
     r"No CUDA GPUs are available|not linked with support for (?:mps|cuda)|"
     r"PyTorch is not linked with",
     "This computer has no such device for PyTorch, and the lab needs none: the device of a new "
     "tensor is that of the tensors that were given."),
    ("RuntimeError", r"Subtraction, the `-` operator, with (?:a|two) bool tensors? is not "
     r"supported|Negation, the `-` operator, on a bool tensor",
     "This tensor holds True and False, which cannot be subtracted; turn it into numbers first."),
    ("TypeError", r"can't convert (\w+):\d+ device type tensor to numpy",
     "numpy only sees tensors on the CPU."),
    ("RuntimeError|MemoryError", r"can't allocate memory|not enough memory|out of memory|"
     r"Unable to allocate|Storage size calculation overflowed|^$",
     "More memory was asked for than a test gets: is a tensor's shape far too large, or a list "
     "filled without end?", ""),
    # ------------------------------------------------------------ None, wrong kinds
    ("TypeError|AttributeError", r"'NoneType' object (?:is not (?:subscriptable|iterable|callable)|"
     r"has no attribute|does not support|cannot be)|cannot unpack non-iterable NoneType object|"
     r"unsupported operand type\(s\) for .*'NoneType'|"
     r"not supported between instances of .*'NoneType'|object of type 'NoneType' has no len",
     NOTHING),
    ("TypeError", r"unsupported operand type\(s\) for \S+(?: or pow\(\))?: .*"
     r"'(?:builtin_function_or_method|method|function|method_descriptor)'",
     "One side is a function itself, not its result: parentheses are missing after its name."),
    ("AttributeError|TypeError", r"'(?:builtin_function_or_method|method|function)' object "
     r"(?:has no attribute|is not subscriptable|is not iterable)",
     "This is a function itself, not its result: parentheses are missing, or there is [ ] where "
     "( ) belongs."),
    ("TypeError", r"unsupported operand type\(s\) for \S+(?: or pow\(\))?: .*'(list|tuple|dict)'|"
     r"can only concatenate (?:list|tuple) \(not \"(?:float|int|Tensor|bool)\"\)|"
     r"can't multiply sequence by non-int of type",
     "A list, tuple or dict does no arithmetic on its entries; a tensor does."),
    ("TypeError", r"can only concatenate (\w+) \(not \"(\w+)\"\) to (\w+)|"
     r"unsupported operand type\(s\) for \S+: .*'str'|must be str, not (\w+)",
     "+ joins two texts or two lists, or adds two numbers; here it has one of each kind."),
    ("TypeError", r"not supported between instances of '(\w+)' and '(\w+)'",
     "A {0} and a {1} cannot be compared."),
    ("TypeError", r"unsupported operand type\(s\) for \S+(?: or pow\(\))?: '(\w+)' and '(\w+)'",
     "There is no such operation between a {0} and a {1}. Print the type of each."),
    ("TypeError", r"'(\w+)' object is not callable",
     "A {0} is followed by parentheses, as if it were a function: a * may be missing, [ ] may be "
     "meant, or a variable has taken the function's name."),
    ("TypeError", r"'(\w+)' object is not subscriptable",
     "A {0} is followed by brackets, but it has no entries."),
    ("TypeError", r"'(int|float|bool)' object is not iterable|"
     r"cannot unpack non-iterable (\w+) object",
     "This is one value, and several were expected: to loop over, to join or to unpack."),
    ("TypeError", r"'(\w+)' object is not iterable",
     "A {0} cannot be looped over or unpacked."),
    ("TypeError", r"(list|tuple) indices must be integers or slices, not (\w+)",
     "A {0} is indexed with a {1}. If that is a string: did you mean the dict that it came from?"),
    ("TypeError", r"string indices must be integers",
     "A string is indexed with something that is not a number: a loop over a dict gives its "
     "keys, which are strings."),
    ("TypeError", r"slice indices must be integers|'(?:float|Tensor)' object cannot be interpreted "
     r"as an integer",
     "A whole number is wanted here, and / always gives a floating-point number."),
    ("TypeError", r"unhashable type: '(\w+)'",
     "A {0} cannot be a key of a dict or an entry of a set. Are there braces where other "
     "brackets belong?"),
    ("TypeError", r"'(\w+)' object does not support item assignment",
     "The entries of a {0} cannot be changed; build a new one, or a list."),
    ("TypeError", r"object of type '(\w+)' has no len\(\)", "A {0} has no length."),
    ("ValueError", r"too many values to unpack \(expected (\d+)",
     "To the right of = (or after `in`) there are more values than the {0} names on the left. "
     "A loop over a dict, list or tensor gives one entry at a time."),
    ("ValueError", r"not enough values to unpack \(expected (\d+), got (\d+)\)",
     "There are {0} names and only {1} values to put in them."),
    ("ValueError", r"invalid literal for int\(\) with base|could not convert string to float",
     "This string is not a number. A response can be any string, even an empty one."),
    ("ValueError", r"zip\(\) argument \d+ is (?:shorter|longer) than",
     "The lists that go side by side have different lengths."),
    # ------------------------------------------------------------ calls
    ("TypeError", r"got an unexpected keyword argument '(\w+)'",
     "The function has no parameter {0}; its def or its documentation lists them."),
    ("TypeError", r"missing (?:\d+|a) required (?:positional |keyword-only )?arguments?:? ?(.*)",
     "An argument is missing in this call."),
    ("TypeError", r"takes (?:from )?(\d+)(?: to \d+)? positional arguments? but (\d+) (?:was|were) "
     r"given|too many positional arguments|takes no arguments",
     "This call passes more arguments than the function has parameters."),
    ("TypeError", r"got multiple values for (?:keyword )?argument '(\w+)'",
     "The argument {0} is passed twice, by its place and by its name."),
    # ------------------------------------------------------------ names
    ("AttributeError", r"'(?:float|int|bool)' object has no attribute '(?:backward|detach|item|"
     r"requires_grad|grad|dim|shape|size|mean|sum|exp|tolist|to|cpu|unsqueeze|view)'",
     "This is a plain Python number, no longer a tensor: .item(), float() and Python's own "
     "functions make such numbers, and they carry no gradient."),
    ("AttributeError", r"'(list|tuple)' object has no attribute '(?:mean|sum|std|view|reshape|"
     r"shape|size|exp|log|unsqueeze|float|to|dim|max|min|clamp|abs|device|dtype)'",
     "This is a {0}, not a tensor."),
    ("AttributeError", r"'tuple' object has no attribute '(\w+)'",
     "This is a tuple: a function that returns several values gives them all at once, and they "
     "must be unpacked."),
    ("AttributeError", r"'dict' object has no attribute '(\w+)'",
     "This is a dict; its entries are reached with brackets and a key, not with a dot."),
    ("AttributeError", r"'str' object has no attribute '(\w+)'",
     "This is a text and has no {0}; a loop over a dict gives its keys, which are texts."),
    ("AttributeError", r"module '(torch|torch\.\w+(?:\.\w+)*|math|numpy|random|tinylm)' has no "
     r"attribute '(\w+)'",
     "{0} has nothing named {1}: check the spelling in its documentation."),
    ("AttributeError", r"'(?:Tensor|Parameter)' object has no attribute '(\w+)'",
     "A tensor has no {0}: check the spelling in PyTorch's documentation."),
    ("AttributeError", r"'numpy\.ndarray' object has no attribute '(\w+)'",
     "This is an array of numpy, not a tensor."),
    ("UnboundLocalError", r"cannot access local variable '(\w+)'|local variable '(\w+)' referenced",
     "No line that ran before this one gives {0} a value: that line comes later, or is in a "
     "branch that was not taken."),
    ("NameError", r"cannot access free variable '(\w+)'",
     "{0} has no value yet when this line runs."),
    ("ModuleNotFoundError", r"No module named '([\w.]+)'",
     "{0} is not installed here, or its name is misspelt. The lab only needs PyTorch."),
    ("ImportError", r"cannot import name '(\w+)' from '([\w.]+)'",
     "There is no {0} in {1}."),
    # ------------------------------------------------------------ the rest
    ("RecursionError", r"", "The function calls itself again and again, without end."),
    ("ZeroDivisionError", r"", "A Python number was divided by 0."),
    ("OverflowError|ValueError", r"math (?:range|domain) error|expected a nonnegative input|"
     r"expected a positive input",
     "A function of math got a number it has no result for, such as the log of 0 or less, or "
     "the exponential of a large number."),
    ("AssertionError", r"", "An assert in your file failed.", r"\bassert\b"),
    ("EOFError", r"EOF when reading a line|input\(\) was called",
     "input() waits for somebody to type; remove it."),
    ("OSError", r"reading from stdin while output is captured",
     "input() waits for somebody to type; remove it."),
    ("StopIteration", r"", "next() was called once more than there are entries."),
    ("FileNotFoundError", r"No such file or directory",
     "The file is not in the folder from which the program was started."),
    ("TorchDynamoException|ShortenTraceback|CppCompileError|InvalidCxxCompiler|InductorError", r"",
     "torch.compile failed here (it needs a C++ compiler and Python's headers, and cannot compile "
     "everything). The lab runs without it: remove @torch.compile."),
)]

# Errors that Python finds when it reads the file, before a line of it runs.
SYNTAX = [(re.compile(pattern), sentence) for pattern, sentence in (
    (r"unexpected indent", "this line begins further right than the one above it"),
    (r"unindent does not match", "no line above begins at the same column as this line"),
    (r"expected an indented block", "the lines that belong to the one above begin further right"),
    (r"inconsistent use of tabs|inconsistent tabs", "indent with spaces only; tabs are mixed in"),
    (r"outside function", "this line begins too far left to belong to the function"),
    (r"was never closed", "its closing bracket is missing"),
    (r"^unmatched|does not match opening", "the brackets do not fit"),
    (r"unterminated|EOL while|EOF while|unexpected EOF",
     "something that was opened, such as a quote, is never closed"),
    (r"invalid (?:non-printable )?character",
     "it looks like one of Python's characters but is a different one; retype it"),
    (r"cannot assign to|Maybe you meant '=='", "= gives a name a value; == compares"),
    (r"expected ':'", "a colon is missing at the end of the line"),
    (r"forgot a comma", "or an operator or bracket is missing"),
    (r"^invalid syntax", "look at the end of the line above, too"),
)]


def syntax_advice(message):
    """Return a sentence about a SyntaxError's text, or ""."""
    for pattern, sentence in SYNTAX:
        if pattern.search(message or ""):
            return sentence[0].upper() + sentence[1:] + "."
    return ""


def advice(error, code="", names=()):
    """Return a sentence about an exception, or None.

    Args:
        error: the exception.
        code: the student's line that raised it.
        names: the names that the student's file defines, as a dict of its module.
    """
    try:
        text = str(error)
    except Exception:  # an exception class of the student's own can fail at anything
        return None
    special = _shadowed(error, code, names) or _key(error) or _name(error, text, names)
    if special:
        return special
    classes = {cls.__name__ for cls in type(error).__mro__}
    for row in TABLE:
        if not classes & set(row.classes.split("|")):
            continue
        found, there = re.search(row.text, text), re.search(row.code, code)
        if found and there:
            words = [group for group in found.groups() if group is not None]
            words += ["?"] * row.sentence.count("{")
            return _filled(row.sentence, words, there.groupdict())
    return None


def _filled(sentence, words, named):
    """Return a sentence with words put in; "a" before one that begins with a vowel becomes "an"."""
    mark = "\0"  # where a word was put in
    text = sentence.format(*[mark + word for word in words],
                           **{name: f"{mark}{word}" for name, word in named.items()})
    return re.sub(rf"\b([Aa]) {mark}(?=[aeiou])", r"\1n ", text).replace(mark, "")


def _shadowed(error, code, names):
    """Say that a name of Python's own is something else in the student's file."""
    if not isinstance(error, (TypeError, ValueError, RuntimeError)) or not names:
        return None
    for name in re.findall(r"(?<![\w.])([a-z]+)\(", code):
        if name in names and hasattr(builtins, name):
            value = names[name]
            if value is not getattr(builtins, name):
                origin = getattr(value, "__module__", None) or "torch" if callable(value) else None
                what = f"a function of {origin}" if origin else f"of type {type(value).__name__}"
                return (f"In your file {name} is not Python's own: it is {what} "
                        "(from an import with *, or a variable of this name).")
    return None


def _key(error):
    """Say which key of the lab's dicts may be meant."""
    if not isinstance(error, KeyError) or not error.args or type(error.args[0]) is not str:
        return None
    key = error.args[0]
    if key in ("ids", "prompt_len"):
        return ("The dict here is not the one that tinylm.sample returns, which has the keys ids, "
                "prompt_len and mask; in the dict of sample_group that one stands under a key.")
    close = difflib.get_close_matches(key, [name for name in KEYS if name != key], 1, 0.7)
    if close:
        return f"The dict has no such key; did you mean {close[0]!r}?"
    return "The dict has no such key. Print its keys."


def _name(error, text, names):
    """Say what may be wrong with a name that is not defined, or a field that is not there."""
    if isinstance(error, NameError) and not isinstance(error, UnboundLocalError):
        match = re.search(r"name '(\w+)' is not defined", text)
        if match and match[1] in MODULES:
            return f"The import of {match[1]} is missing at the top of the file."
        if match:
            return (f"Nothing of the name {match[1]} is defined at this place: a typo, a variable "
                    "of another function, or a line that was never written?")
    match = re.search(r"'(?:GRPOConfig|SimpleNamespace|types\.SimpleNamespace)' object has no "
                      r"attribute '(\w+)'", text)
    if match and isinstance(error, AttributeError):
        close = difflib.get_close_matches(match[1], FIELDS, 1, 0.5)
        return f"cfg has no field {match[1]}" + (f"; did you mean {close[0]}?" if close else ".")
    return None
