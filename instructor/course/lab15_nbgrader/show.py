"""How a student's Markdown is shown to the teacher: as text and formulas, HTML escaped.

nbgrader's pages put the HTML in a Markdown cell into the page as it is. There it runs with the
rights of your Jupyter server, whatever nbconvert's own sanitize_html says.
"""

from typing import Any

from jinja2 import pass_context
from jinja2.runtime import Context
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath


@pass_context
def markdown2html(context: Context, source: str) -> str:
    """Return HTML for Markdown; replaces nbconvert's filter of the same name."""
    cell: Any = context.get("cell", {})
    attachments = cell.get("attachments", {}) if hasattr(cell, "get") else {}
    renderer = IPythonRenderer(escape=True, attachments=attachments, embed_images=False)
    return MarkdownWithMath(renderer=renderer).render(source)
