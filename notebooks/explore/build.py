"""Put the page together: one file of html, style, script, models and curves, and nothing else."""

import base64
import hashlib
import json
from pathlib import Path

import tinylm
from lab15_run import read_json
from notebooks.explore import bundle, curves, mine, own, weights

HERE = Path(__file__).resolve().parent
DATA = HERE / "data"
LARGEST = 5_000_000  # bytes of the page
PARTS = ("policy", "style", "vendor", "data", "script")  # marks of page.html, a line each


def as_json(value):
    """Return JSON that no browser takes for the end of the script element it stands in."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def read_page(folder=DATA):
    """Return what the page is about: batches, the recorded run, its models.

    Raises:
        ValueError: a file of the data folder is missing or damaged.
    """
    try:
        batches = read_json(folder / "batches.json")
        training = read_json(folder / "checkpoints.json")
        packed = (folder / "checkpoints.bin").read_bytes()
        models = weights.unpack(packed, training["exponents"], weights.sizes())
    except (OSError, EOFError, ValueError, KeyError) as error:
        raise ValueError(f"{folder} is not complete ({error}); fetch it again, or record it: "
                         "python -m notebooks.explore.record") from None
    if len(models) != len(training["iterations"]):
        raise ValueError(f"{folder}: {len(models)} models for {len(training['iterations'])} "
                         "iterations; record both again: python -m notebooks.explore.record")
    return {"batches": batches, "training": training, "packed": packed, "models": models,
            "iterations": training["iterations"]}


def parts(lab=None, runs=()):
    """Return the parts of the page by name, as html.

    Args:
        lab: a student's lab file, whose numbers are put into the page; None: no student's.
        runs: folders of training runs, whose curves are put into the page.

    Raises:
        ValueError: the lab file, a run or the data cannot be used; one line that says why.
    """
    page = read_page()
    training = {k: v for k, v in page["training"].items() if k != "held_out"}
    data = {"batches": page["batches"], "training": training, "runs": curves.experiments(),
            "detective": curves.detective(), "mine": lab and mine.mine(lab, page),
            "own": own.runs(runs, page["training"])}
    style = "\n".join(read(path) for path in sorted((HERE / "style").glob("*.css")))
    vendor = [(path.stem, read(path)) for path in sorted((HERE / "vendor").glob("*.js"))]
    packed = base64.b64encode(page["packed"]).decode()
    script = "\n" + closed(bundle.bundle(HERE / "js" / "main.js", HERE), "the modules")
    vendor = {name: "\n" + closed(text, name) for name, text in vendor}
    return {
        "policy": policy([*vendor.values(), script]),
        "style": f"<style>\n{style}</style>",
        "vendor": "\n".join(f'<script data-from="{name}">{text}</script>'
                            for name, text in vendor.items()),
        "data": f'<script type="application/json" id="page-data">{as_json(data)}</script>\n'
                f'<script type="text/plain" id="page-weights">{packed}</script>',
        "script": f"<script>{script}</script>",
    }


def policy(scripts):
    """Return the page's own security policy: these scripts run, and nothing else; no request."""
    hashes = " ".join(f"'sha256-{base64.b64encode(hashlib.sha256(s.encode()).digest()).decode()}'"
                      for s in scripts)
    return ("<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
            f"script-src {hashes}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
            "form-action 'none'\">")


def read(path):
    """Return the text of a file with LF line ends, whatever the checkout has."""
    return path.read_text(encoding="utf-8").replace("\r\n", "\n")


def closed(script, name):
    """Return a script, which must not contain what would end its element early."""
    low = script.lower()
    if "</script" in low or ("<!--" in low and "<script" in low):
        raise ValueError(f"{name}: </script, and <script after <!--, end a script in a page; "
                         "write them apart")
    return script


def page_html(lab=None, runs=()):
    """Return the whole page as text; see parts for the arguments."""
    html, found = read(HERE / "page.html"), parts(lab, runs)
    for name in PARTS:
        mark = f"<!-- {name} -->"
        if html.count(mark) != 1:
            raise ValueError(f"page.html must have {mark} once, not {html.count(mark)} times")
        html = html.replace(mark, found[name])
    return html


def write(out, lab=None, runs=()):
    """Write the page to a file atomically; return its size in bytes.

    Args:
        out: the file.
        lab: a student's lab file, or None.
        runs: folders of training runs.

    Raises:
        ValueError: something cannot be used; one line that says why.
        OSError: the file cannot be written.
    """
    data = page_html(lab, runs).encode()
    if len(data) > LARGEST:
        raise ValueError(f"the page would have {len(data)} bytes, more than {LARGEST}")
    tinylm.write_file(out, lambda file: file.write(data))
    return len(data)
