"""The interactive page on which you watch GRPO work; see __main__.py.

Read in this order: js (the model and the method in JavaScript), weights, batches, curves,
mine (a student's functions on the page's batches), build; record makes the stored data.
"""


def page():
    """Return the page as text, without a student's numbers: the book includes it."""
    from notebooks.explore import build

    return build.page_html()
