"""How a student's Markdown is shown to the teacher: as text and formulas, HTML escaped.

nbgrader's pages put the HTML in a Markdown cell into the page as it is. There it runs with the
rights of your Jupyter server, whatever nbconvert's own sanitize_html says.
"""

import html
from typing import Any

from jinja2 import pass_context
from jinja2.runtime import Context
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

LONGEST = 16_000  # characters of a cell that are shown; the parser's work may grow as the square
ATTACHMENT = "attachment:"
PICTURES = ("image/png", "image/jpeg")


class EssayRenderer(IPythonRenderer):
    """nbconvert's renderer; a picture that is not attached costs itself, not the whole page."""

    def image(self, text: str, url: str, title: str | None = None) -> str:
        """Return the picture, or a remark where there is none."""
        name = url[len(ATTACHMENT):]
        if url.startswith(ATTACHMENT) and name not in self.attachments:
            return f"<em>(the picture {html.escape(name[:200])} is not attached)</em>"
        return super().image(text, url, title)


def pictures(cell: Any) -> dict[str, dict[str, str]]:
    """Return a cell's attachments, of whatever shape, as {name: {type: base64}}."""
    found = cell.get("attachments") if hasattr(cell, "get") else None
    kept = {}
    for name, data in found.items() if isinstance(found, dict) else ():
        data = data if isinstance(data, dict) else {}
        good = {kind: data[kind] for kind in PICTURES if isinstance(data.get(kind), str)}
        if good:
            kept[str(name)] = good
    return kept


@pass_context
def markdown2html(context: Context, source: str) -> str:
    """Return HTML for Markdown; replaces nbconvert's filter of the same name."""
    source = str(source)
    cut = f"\n\n(cut after {LONGEST} characters)" * (len(source) > LONGEST)
    try:
        attachments = pictures(context.get("cell", {}))
        renderer = EssayRenderer(escape=True, attachments=attachments, embed_images=False)
        return MarkdownWithMath(renderer=renderer).render(source[:LONGEST] + cut)
    except Exception as error:  # whatever a student's text does to the parser: it costs this cell
        why = f"cannot be shown as Markdown ({type(error).__name__})"
        return f"<p><em>{why}</em></p><pre>{html.escape(source[:LONGEST] + cut)}</pre>"
