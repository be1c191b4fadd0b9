"""Settings of Sphinx; python -m notebooks.book puts this file beside the pages it has gathered."""

from notebooks.first_cell import TOP

version = next(line.split('"')[1]
               for line in (TOP / "lab15_grpo.py").read_text(encoding="utf-8").splitlines()
               if line.startswith("LAB_VERSION"))

project = "Lab 15: GRPO from scratch"
author = "The Lab 15 authors"
copyright = "The Lab 15 authors, MIT licence"
extensions = ["myst_nb", "sphinx_copybutton", "notebooks.book.mathml", "notebooks.book.parts",
              "notebooks.book.search"]
exclude_patterns = []
language = "en"

# Markdown as GitHub reads it, and definitions of labels for the chapter's anchors.
myst_enable_extensions = ["dollarmath", "html_image", "amsmath", "strikethrough"]
myst_fence_as_directive = ["math"]
myst_heading_anchors = 4
myst_dmath_double_inline = True
suppress_warnings = ["myst.strikethrough", "myst.header"]

# The notebooks come with their outputs. Widgets have a still picture beside them (see play.py);
# without these two lines the pages would load scripts from elsewhere.
nb_execution_mode = "off"
nb_ipywidgets_js = {}
nb_merge_streams = True

html_theme = "furo"
html_title = "Lab 15: GRPO from scratch"
html_math_renderer = "mathml"
html_static_path = ["static"]
templates_path = ["templates"]
html_css_files = ["lab15.css"]
html_js_files = ["lab15.js"]
html_copy_source = False
copybutton_exclude = ".linenos, .gp, .go"
copybutton_selector = "div:not(.highlight-text) > div.highlight > pre:not(.cell_output pre)"
html_show_sourcelink = False
html_show_sphinx = False
html_show_search_summary = False  # a page opened from disk may not fetch the others
html_last_updated_fmt = None
html_theme_options = {"footer_icons": []}
