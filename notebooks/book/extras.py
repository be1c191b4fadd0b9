"""Finished HTML pages that the book takes along: the interactive page, slides, what --add names."""

import html
import importlib
import re

# Modules that make a page, if they can be imported: {file name: (module, words on the front page)}.
# The module has a function page() that returns the page's text or bytes.
MADE = {"explore.html": ("notebooks.explore", "the model in your browser: sample, score, train")}
_TITLE = re.compile(r"<title>(.*?)</title>", re.S | re.I)


def title_of(data, name):
    """Return a page's title, or its name without one."""
    found = _TITLE.search(data.decode("utf-8", "replace"))
    return html.unescape(" ".join(found[1].split())) if found else name


def made(name):
    """Return the bytes of a page that a module here makes, or None if that is not there (yet)."""
    try:
        page = getattr(importlib.import_module(MADE[name][0]), "page", None)
    except ModuleNotFoundError:
        return None
    if page is None:
        return None
    data = page()
    return data.encode() if isinstance(data, str) else data


def found(paths):
    """Return {file name: (title, words, bytes)} of all pages to take along.

    Args:
        paths: of finished pages.

    Raises:
        OSError: one of them cannot be read.
        ValueError: two have the same name.
    """
    pages = {}
    for name, (_, words) in MADE.items():
        if (data := made(name)) is not None:
            pages[name] = (title_of(data, name), words, data)
    for path in paths:
        if path.name in pages or path.name == "index.html":
            raise ValueError(f"{path}: the book has a page {path.name} already; rename it")
        data = path.read_bytes()
        pages[path.name] = (title_of(data, path.name), "", data)
    return pages
