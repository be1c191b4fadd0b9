"""Two programs that run the page's JavaScript: node, and the built page in a browser.

Both take the body of an async function. In it `explore` holds the modules of notebooks/explore/js
by name (explore.tinylm.forward), `given` is what Python hands over, and `floats(given.x)` makes a
Float32Array of what `packed` has packed. What it returns comes back as Python's lists and numbers.
"""

import base64
import json
import shutil
import subprocess

import numpy as np
import pytest

from instructor.tests import browser
from notebooks.explore import build

NAMES = ("random", "tinylm", "grpo", "losses", "adam", "step", "weights")
FLOATS = """
const floats = (text) => {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  return new Float32Array(bytes.buffer);
};
"""


def packed(values):
    """Return numbers as base64 of their float32: exact, and short."""
    return base64.b64encode(np.asarray(values, "<f4").tobytes()).decode()


class Node:
    """Runs the modules as they are."""

    def __init__(self, program):
        self.program = program

    def run(self, body, **given):
        """Return what the body of an async function returns."""
        imports = "".join(f'import * as {name} from "{(build.HERE / "js" / name).as_uri()}.js";\n'
                          for name in NAMES)
        text = f"""{imports}import fs from "node:fs";
const explore = {{ {", ".join(NAMES)} }};{FLOATS}
const given = JSON.parse(fs.readFileSync(0, "utf8"));
const found = await (async () => {{ {body} }})();
fs.writeSync(1, JSON.stringify(found));
"""
        done = subprocess.run([self.program, "--input-type=module", "-e", text],
                              input=json.dumps(given), capture_output=True, encoding="utf-8")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


class Page:
    """Runs the modules of a built page."""

    def __init__(self, page):
        self.page = page

    def run(self, body, **given):
        """Return what the body of an async function returns."""
        names = ", ".join(f"{name}: globalThis.explore.js_{name}" for name in NAMES)
        found = self.page.evaluate(f"""async (text) => {{
            const explore = {{ {names} }}, given = JSON.parse(text);{FLOATS}
            const found = await (async () => {{ {body} }})();
            return JSON.stringify(found);
        }}""", json.dumps(given))
        return json.loads(found)


def node():
    """Return a Node; skips the test where there is none."""
    program = shutil.which("node") or shutil.which("nodejs")
    if program is None:
        pytest.skip("no node: apt-get install nodejs, or see nodejs.org")
    return Node(program)


def opened(folder):
    """Yield a Page that was built into a folder; skips the test where there is no browser."""
    path = folder / "explore.html"
    build.write(path)
    with browser.page() as page:
        page.goto(path.as_uri())
        yield Page(page)
