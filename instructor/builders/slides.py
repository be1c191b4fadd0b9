"""Build the slides: one HTML file that opens from disk, without a network.

The text is instructor/teaching/slides.md, with the presenter's notes; the pictures are the
chapter's figures. sphinx-revealjs makes the page (reveal.js comes with it), and everything that it
loads is put into the file.
"""

import argparse
import base64
import io
import mimetypes
import re
import tempfile
from pathlib import Path

from lab15_run import counted
from tests.labfile import ROOT, ascii_line
from tinylm import write_file

TEACHING = ROOT / "instructor" / "teaching"
TEXT, STYLE = TEACHING / "slides.md", TEACHING / "slides.css"
FIGURES = "../../notebooks/figures/"
# Keys of our own, by their code: D changes between a white and a dark background.
SCRIPT = """{
    hash: true, slideNumber: "c/t", width: 1120, height: 700, margin: 0.05, center: false,
    transition: "none", controlsTutorial: false, pdfSeparateFragments: false,
    keyboard: {68: () => document.documentElement.classList.toggle("dark")}
}"""
SETTINGS = {
    "project": "Lab 15: GRPO from scratch",
    "extensions": ["myst_parser", "sphinx_revealjs"],
    "source_suffix": {".md": "markdown"},  # the book, built before in one process, adds to Sphinx's
    "myst_enable_extensions": ["colon_fence"],
    "root_doc": "slides",
    "language": "en",
    "revealjs_html_theme": "revealjs-simple",
    "revealjs_style_theme": STYLE.name,
    "revealjs_static_path": ["static"],
    "revealjs_script_conf": SCRIPT,
    "revealjs_script_plugins": [{"src": "revealjs/plugin/notes/notes.js", "name": "RevealNotes"}],
}
PICTURE = re.compile(r"(!\[[^\]]*\]\()([^)\s]+)(\))")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of this builder."""
    parser.add_argument("--out", type=Path, default=Path("slides.html"), metavar="FILE",
                        help="the file (default slides.html)")


def picture(target: str) -> Path:
    """Return the file of a picture: drawn as lines (.svg) where that exists, else as it is named.

    Raises:
        ValueError: there is no such file.
    """
    named = (TEACHING / target).resolve()
    for path in (named.with_suffix(".svg"), named):
        if path.is_file():
            return path
    raise ValueError(f"{TEXT.name}: there is no picture {target}")


def gather(folder: Path) -> None:
    """Write what Sphinx reads into an empty folder: the text, its pictures, the style.

    Raises:
        ValueError: a picture is missing.
    """
    def placed(match: re.Match) -> str:
        path = picture(match[2])
        (folder / path.name).write_bytes(path.read_bytes())
        return f"{match[1]}{path.name}{match[3]}"

    text = re.sub(r"<!--.*?-->\n?", "", TEXT.read_text(encoding="utf-8"), flags=re.S)
    (folder / "slides.md").write_text(PICTURE.sub(placed, text), encoding="utf-8")
    (folder / "static").mkdir()
    (folder / "static" / STYLE.name).write_bytes(STYLE.read_bytes())


def built(folder: Path) -> Path:
    """Run Sphinx on a folder of sources; return the page that it wrote.

    Raises:
        ValueError: Sphinx is not installed, or it warned; the message has its words.
    """
    try:
        import sphinx_revealjs  # noqa: F401  (asked for here, so that the line below can help)
        from sphinx.application import Sphinx
        from sphinx.util.docutils import docutils_namespace
    except ImportError as error:
        raise ValueError(f"{error}: pip install -r instructor/requirements.txt") from error

    out, said = folder / "out", io.StringIO()
    with docutils_namespace():
        app = Sphinx(folder, None, out, folder / "doctrees", "revealjs", SETTINGS,
                     status=None, warning=said, freshenv=True)
        app.build()
    if said.getvalue().strip():
        raise ValueError(f"{TEXT.name}: {said.getvalue().strip()}")
    return out / "slides.html"


def as_data(path: Path) -> str:
    """Return a file as an address that holds it."""
    kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    return f"data:{kind};base64,{base64.b64encode(path.read_bytes()).decode('ascii')}"


def in_one_file(page: Path) -> str:
    """Return a page's text with styles, scripts and pictures in the place of their addresses.

    Raises:
        ValueError: it would still load something, or a file is missing.
    """
    def file(address: str) -> Path:
        path = page.parent / address.partition("?")[0]
        if not path.is_file():
            raise ValueError(f"the slides load {address}, which was not made")
        return path

    def style(match: re.Match) -> str:
        return f"<style>\n{file(match[1]).read_text(encoding='utf-8')}\n</style>"

    def script(match: re.Match) -> str:
        code = file(match[1]).read_text(encoding="utf-8")
        return "<script>\n" + re.sub(r"</(script)", r"<\\/\1", code, flags=re.I) + "\n</script>"

    text = page.read_text(encoding="utf-8")
    text = re.sub(r'<link rel="stylesheet"[^>]*?href="([^"]+)"[^>]*>', style, text)
    text = re.sub(r'(?<=<img )([^>]*?)src="([^"]+)"',
                  lambda m: f'{m[1]}src="{as_data(file(m[2]))}"', text)
    text = re.sub(r'<script src="([^"]+)"></script>', script, text)
    plain = re.sub(r"(?s)(<(?:script|style)[^>]*>).*?</(?:script|style)>", r"\1", text)
    loads = re.findall(r'<(?:link|img|script|iframe)\b[^>]*?(?:src|href)="(?!data:)([^"]+)"', plain)
    if loads:
        raise ValueError(f"the slides would load {', '.join(loads)}")
    return text


def run(flags: argparse.Namespace) -> int:
    """Write the file; return the exit code.

    Raises:
        ValueError: a picture or a package is missing, or Sphinx warned.
    """
    with tempfile.TemporaryDirectory() as folder:
        gather(Path(folder))
        text = in_one_file(built(Path(folder)))
    write_file(flags.out, lambda file: file.write(text.encode("utf-8")))
    slides = len(re.findall(r"<h[12]>", text))
    print(ascii_line(f"{counted(slides, 'slide')}, {len(text) / 1e6:.1f} MB: {flags.out}", 300))
    return 0
