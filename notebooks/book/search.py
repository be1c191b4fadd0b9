"""A Sphinx extension: a search that finds sections, with an excerpt, in pages opened from disk.

Sphinx's own search must fetch the pages for an excerpt, which a browser refuses for files. Here
the text of every section is in one script, static/search.js looks through it with MiniSearch, and
templates/search.html shows what it finds.
"""

import json
from pathlib import Path

from docutils import nodes

from notebooks.book.parts import own_text

NAME = "search-sections.js"


def weight(docname):
    """Return how much a page counts: the chapter explains what all others only use.

    A teacher's pages use the same words, and a reader who searches is more often a student.
    """
    if docname.startswith("instructor/"):
        return 0.1
    return 2 if docname.startswith("section-") else 1


def records(env, page_uri):
    """Return a dict for every section: page, title, text, and where it is.

    Args:
        env: Sphinx's, with all pages read.
        page_uri: a function from the name of a page to its address.
    """
    found = []
    for docname in sorted(env.found_docs):
        tree = env.get_doctree(docname)
        page = env.titles[docname].astext()
        for section in tree.findall(nodes.section):
            title, text = own_text(section)
            if len(section["ids"]) and (text or title):
                top = isinstance(section.parent, nodes.document)
                place = page_uri(docname) + ("" if top else f"#{section['ids'][0]}")
                found.append({"id": len(found), "page": page, "title": title, "text": text,
                              "weight": weight(docname), "at": place})
    return found


def write(app, error):
    """Write the sections beside the pages, once these are written."""
    if error is None and app.builder.format == "html":
        text = json.dumps(records(app.env, app.builder.get_target_uri), ensure_ascii=False)
        path = Path(app.outdir) / "_static" / NAME
        path.write_text(f"window.LAB15_SECTIONS = {text};\n", encoding="utf-8")


def setup(app):
    """Register it."""
    app.connect("build-finished", write)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
