"""A Sphinx extension that writes formulas as MathML, which every browser of today draws itself.

Nothing is loaded: no script, no font, no network. A screen reader reads the formula, and a
formula that cannot be converted is a warning that names it.
"""

import html
import re

from sphinx.errors import ConfigError
from sphinx.util import logging

logger = logging.getLogger(__name__)
# (a command with its letters) | (an argument that is text) | (a word)
_WORD = re.compile(r"(\\(?:begin|end|color(?:\[HTML\])?|text\w*|math\w+|operatorname\*?|tag)"
                   r"\s*\{[^{}]*\})|(\\[A-Za-z]+)|([A-Za-z]{2,})")
_COLOR = re.compile(r"\\(text)?color\{#([0-9a-fA-F]{6})\}(\{)?")


def with_colors(latex):
    r"""Return LaTeX with \textcolor{#0072B2}{x}, as browsers know it, made \color[HTML]{0072B2}."""
    def plain(match):
        code = rf"\color[HTML]{{{match[2].upper()}}}"
        return "{" + code + " " if match[1] and match[3] else code + (match[3] or "")

    return _COLOR.sub(plain, latex)


def with_words(latex):
    r"""Return LaTeX in which words are upright: clip(x) and \pi_{old}, as a book prints them.

    Two or more letters in a row are a word, and no product: before a bracket an operator.
    """
    def upright(match):
        if match[1] or match[2]:  # a command, or the argument of one that wants plain letters
            return match[0]
        before_bracket = re.match(r"\s*[(\[]", latex[match.end():])
        return rf"\{'operatorname' if before_bracket else 'text'}{{{match[3]}}}"

    return _WORD.sub(upright, latex)


def convert(latex, block=False):
    """Return MathML.

    Raises:
        ValueError: the formula has a command that is not known, or its braces do not match.
    """
    from math_core import LatexError, LatexToMathML

    try:
        return LatexToMathML(fancy_error=False).convert_with_local_state(
            with_words(with_colors(latex)), displaystyle=block)
    except LatexError as error:
        raise ValueError(f"{error} in the formula: {latex}") from error


def _write(translator, node, block):
    latex = node.astext()
    try:
        code = convert(latex, block)
    except ValueError as error:
        logger.warning("%s", error, location=node, type="math")
        code = f"<code>{html.escape(latex)}</code>"
    if block:
        number = node.get("lab_number")
        told = f'<span class="number">({number})</span>' if number else ""
        place = f' id="equation-{number}"' if number else ""
        code = f'<div class="math"{place}><div class="formula">{code}</div>{told}</div>'
    translator.body.append(code)


def inline(translator, node):
    """Write a formula within a line."""
    from docutils.nodes import SkipNode

    _write(translator, node, False)
    raise SkipNode


def display(translator, node):
    """Write a formula that stands alone."""
    from docutils.nodes import SkipNode

    _write(translator, node, True)
    raise SkipNode


def setup(app):
    """Register the renderer under the name mathml."""
    try:
        import math_core  # noqa: F401
    except ImportError as error:
        raise ConfigError("math-core is missing: pip install -r instructor/requirements.txt"
                          ) from error
    app.add_html_math_renderer("mathml", (inline, None), (display, None))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
