"""The page where GRPO happens before your eyes; see __main__.py.

To be read in this order: js (the model and the method in JavaScript), weights, batches, curves,
mine (a student's functions on the page's batches), build; record makes the data that is kept.
"""


def page():
    """Return the page as text, without a student's numbers: the book takes it along."""
    from notebooks.explore import build

    return build.page_html()
