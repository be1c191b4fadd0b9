"""How a student's notebook is shown to the teacher: as text, formulas and pixels.

nbgrader's pages put the HTML in a Markdown cell into the page as it is. There it runs with the
rights of your Jupyter server, whatever nbconvert's own sanitize_html is set to, and a link needs no
more than a click. Here HTML is text, a link is http(s) or mailto and shows where it leads, and a
picture is one that was pasted into the notebook. What is left goes through nh3.
"""

import html
import re
import unicodedata
from typing import Any

from jinja2 import pass_context
from jinja2.runtime import Context
from mistune import import_plugin
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbconvert.preprocessors import Preprocessor
from nbformat.notebooknode import NotebookNode

from .execute import IMAGES, MOST_IMAGE, clean
from .formulas import convert

LONGEST = 10_000  # characters: Markdown of more takes a hostile writer's time, which is yours
PLUGINS = ("strikethrough", "table", "url", "def_list")
LINKS = ("http", "https", "mailto")
NO_NH3 = (
    "The package nh3 is missing (pip install -r instructor/requirements.txt); "
    "until it is there, this text is shown as it was written:"
)
TEXT = set(
    "a blockquote br code dd del div dl dt em h1 h2 h3 h4 h5 h6 hr img li ol p pre span strong "
    "sub sup table tbody td th thead tr ul".split()
)
MATH = set(
    "math mfrac mi mn mo mover mpadded mphantom mroot mrow mspace msqrt mstyle msub msubsup msup "
    "mtable mtd mtext mtr munder munderover".split()
)
MATH_ATTRIBUTES = set(
    "accent accentunder depth display displaystyle fence form height largeop linethickness lspace "
    "mathvariant maxsize minsize movablelimits rspace scriptlevel separator stretchy symmetric "
    "width".split()
)
ATTRIBUTES = {
    "a": {"href"}, "img": {"src", "alt"}, "ol": {"start"}, "mtd": {"style"},
    **{tag: set(MATH_ATTRIBUTES) for tag in MATH - {"mtd"}},
}
STYLES = {"text-align", "justify-items", "padding-left", "padding-right"}
# Nothing inside is drawn over what is around it. MathJax, should a page have it, looks away.
BOX = '<div class="tex2jax_ignore" style="contain: content; overflow: auto">{}</div>'


# ---------------------------------------------------------------- Markdown


@pass_context
def markdown2html(context: Context, source: str) -> str:
    """Return HTML for Markdown; replaces nbconvert's filter of the same name."""
    cell: Any = context.get("cell", {})
    attachments = cell.get("attachments", {}) if hasattr(cell, "get") else {}
    return rendered(source, attachments)


def rendered(source: str, attachments: Any = None) -> str:
    """Return harmless HTML for a student's Markdown.

    Args:
        source: the text.
        attachments: of its cell: {name: {kind: base64}}.
    """
    source = visible(source)
    try:
        import nh3  # noqa: F401
    except ImportError:
        return as_text(source, NO_NH3)
    if len(source) > LONGEST:
        return as_text(source, f"{len(source)} characters are shown as they were written:")
    try:
        made = _draw(source, attachments)
    except Exception as error:  # RecursionError, and what a parser makes of a hostile text
        name = type(error).__name__
        return as_text(source, f"This text cannot be drawn ({name}); here it is as it was written:")
    return BOX.format(harmless(made))


def visible(text: Any) -> str:
    """Return text without characters that hide or turn around others."""
    odd = ("Cc", "Cf", "Cs")
    keep = "\n\t\u200c\u200d"  # the last two join letters and emoji
    text = text if isinstance(text, str) else str(text)
    return "".join(
        c if c in keep or unicodedata.category(c) not in odd else "\N{REPLACEMENT CHARACTER}"
        for c in text.replace("\r\n", "\n").replace("\r", "\n")
    )


def as_text(source: str, note: str = "") -> str:
    """Return HTML that shows a text letter by letter, with a note above it."""
    above = f"<p><em>{html.escape(note)}</em></p>" if note else ""
    plain = f'<pre style="white-space: pre-wrap">{html.escape(visible(source))}</pre>'
    return BOX.format(above + plain)


def harmless(made: str) -> str:
    """Return HTML without anything that is active, loads something, or hides where it leads."""
    import nh3

    return nh3.clean(
        made,
        tags=TEXT | MATH,
        attributes=ATTRIBUTES,
        attribute_filter=_attribute,
        url_schemes={*LINKS, "data"},
        link_rel="noopener noreferrer",
        set_tag_attribute_values={"a": {"target": "_blank"}},
        filter_style_properties=STYLES,
    )


def _attribute(tag: str, name: str, value: str) -> str | None:
    """Return an attribute's value, or None for one that goes: see nh3.clean."""
    if name == "href":
        return value if is_link(value) else None
    if name == "src":
        return value if value.startswith(tuple(f"data:{kind};base64," for kind in IMAGES)) else None
    return value


def is_link(url: str) -> bool:
    """Return whether an address may be followed; every doubt is a no."""
    scheme, colon, rest = url.partition(":")
    known = scheme.lower() in LINKS and bool(rest)
    return known and (scheme.lower() == "mailto" or rest.startswith("//"))


class Renderer(IPythonRenderer):
    """Draws Markdown; what HTML, links, pictures and code blocks become is decided here.

    Args:
        attachments: pictures of the cell.
        formulas: {(LaTeX, whether it stands alone): MathML or ""}.
    """

    def __init__(self, attachments: Any, formulas: dict[tuple[str, bool], str]):
        super().__init__(escape=True, exclude_anchor_links=True)
        self.pictures = attachments if isinstance(attachments, dict) else {}
        self.formulas, self.seen = formulas, {}  # type: ignore[var-annotated]

    def link(self, text: str, url: str, title: str | None = None) -> str:
        """Return a link with its address, or the text and the address."""
        shown = html.escape(url)
        if not is_link(url):
            return f"{text} (<code>{shown}</code>)"
        if url in (text, f"mailto:{text}"):
            text = ""
        return f'{text}{" (" * bool(text)}<a href="{shown}">{shown}</a>{")" * bool(text)}'

    def image(self, text: str, url: str, title: str | None = None) -> str:
        """Return a picture that was pasted into the cell, or say that there is none."""
        about = html.escape(text)
        name = url.removeprefix("attachment:")
        if name == url:
            where = f"<code>{html.escape(url)}</code>"
            return f"[a picture from elsewhere is not loaded: {about} {where}]"
        data = self.pictures.get(name)
        for kind, value in picture(data).items():
            return f'<img src="data:{kind};base64,{value}" alt="{about}">'
        return f"[the picture is missing: {about} <code>{html.escape(name)}</code>]"

    def block_code(self, code: str, info: str | None = None) -> str:
        """Return a block of code, without colors."""
        return f"<pre><code>{html.escape(code)}</code></pre>\n"

    def inline_math(self, body: str) -> str:
        """Return a formula within a line."""
        return self._formula(body, False, f"${body}$")

    def block_math(self, body: str) -> str:
        """Return a formula that stands alone."""
        return self._formula(body, True, f"$${body}$$")

    def latex_environment(self, name: str, body: str) -> str:
        """Return a formula that stands alone."""
        whole = f"\\begin{{{name}}}{body}\\end{{{name}}}"
        return self._formula(whole, True, whole)

    def _formula(self, latex: str, alone: bool, typed: str) -> str:
        self.seen[latex, alone] = None
        return self.formulas.get((latex, alone)) or f"<code>{html.escape(typed)}</code>"


def _draw(source: str, attachments: Any) -> str:
    """Return what the renderer makes of a text; a text with formulas is drawn twice."""
    formulas: dict[tuple[str, bool], str] = {}
    for _ in range(2):
        renderer = Renderer(attachments, formulas)
        plugins = [import_plugin(name) for name in PLUGINS]
        made = MarkdownWithMath(renderer=renderer, plugins=plugins).render(source)
        if not renderer.seen:
            break
        formulas |= zip(renderer.seen, convert(tuple(renderer.seen)), strict=True)
    return made


def picture(data: Any) -> dict[str, str]:
    """Return {kind: base64} of the pixels in an attachment or output, or {}."""
    for kind in IMAGES:
        value = data.get(kind) if isinstance(data, dict) else None
        if isinstance(value, str) and len(value) <= MOST_IMAGE:
            if re.fullmatch(r"[A-Za-z0-9+/=\s]+", value):
                return {kind: "".join(value.split())}
    return {}


# ---------------------------------------------------------------- the rest of a notebook


class Harmless(Preprocessor):
    """Leaves of a notebook what the pages need, whoever wrote it and whatever ran in it.

    The exporter of formgrader and of the feedback runs it first.
    """

    enabled = True

    def preprocess(self, nb: NotebookNode, resources: Any) -> Any:
        """Go through the notebook."""
        nb.metadata = NotebookNode()  # widgets; the name of a language that chooses a lexer
        for number, cell in enumerate(nb.cells):
            cell["id"] = f"cell-{number}"
            about = cell.metadata.get("nbgrader")
            cell.metadata = NotebookNode({"nbgrader": about} if _is_sound(about) else {})
            cell.source = visible(cell.source)
            if cell.cell_type == "code":
                cell.outputs, cell.execution_count = clean(cell.get("outputs", [])), None
        return nb, resources


def _is_sound(about: Any) -> bool:
    """Return whether a cell's marks of nbgrader can stand in a page."""
    if not isinstance(about, dict):
        return False
    name = about.get("grade_id")
    return isinstance(name, str) and re.fullmatch(r"[A-Za-z0-9_-]{1,100}", name) is not None
