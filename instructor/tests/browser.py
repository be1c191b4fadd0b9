"""A real browser for tests, and the Jupyter server that it looks at.

Needs Playwright's Python package (instructor/requirements.txt) and a Chromium or Chrome of the
system; without them a test that needs a page is skipped, with the name of what is missing.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome",
         "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
         "/Applications/Chromium.app/Contents/MacOS/Chromium")
# A page under test asks nothing of the network, and neither does the browser.
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-quic",
         "--no-first-run", "--disable-background-networking", "--disable-component-update",
         "--disable-sync")
PATIENCE = 180  # seconds that a page may take for one thing, on a machine with other work


def find_chromium():
    """Return the path of a Chromium or Chrome of this system, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


def missing():
    """Return what a test in the browser lacks here, one line, or None."""
    try:
        import playwright.sync_api  # noqa: F401
    except ImportError:
        return "no browser: the Python package playwright is missing (instructor/requirements.txt)"
    if find_chromium() is None:
        return "no browser: chromium is missing (apt-get install chromium)"
    return None


@contextlib.contextmanager
def chromium():
    """Yield a new browser with a profile of its own; skip the test where there is none."""
    if lacking := missing():
        pytest.skip(lacking)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=find_chromium(), args=list(FLAGS))
        try:
            yield started
        finally:
            started.close()


@contextlib.contextmanager
def page(width=1400, height=900):
    """Yield an empty page of a new browser.

    Every wait in it ends after PATIENCE seconds. Skips the test where there is no browser.
    """
    with chromium() as started:
        opened = started.new_page(viewport={"width": width, "height": height})
        opened.set_default_timeout(1000 * PATIENCE)
        # A page with an unsaved notebook asks before it is left.
        opened.on("dialog", lambda dialog: dialog.accept())
        yield opened


@contextlib.contextmanager
def jupyter(command, folder, home, **settings):
    """Run a command that starts a Jupyter server; yield the server's own description.

    Args:
        command: a list; it must let --no-browser and flags of jupyter_server through.
        folder: the working directory.
        home: an empty folder for the server's settings, so that those of the user do not count.
        **settings: environment variables.

    Yields a dict with "url", "token", "root_dir", "pid" (as in jupyter_server's own file) and
    "log", the path of what it printed.
    """
    home = Path(home)
    env = {key: value for key, value in os.environ.items() if not key.startswith("JUPYTER")}
    env |= {"HOME": str(home), "USERPROFILE": str(home), "JUPYTER_RUNTIME_DIR": str(home / "run"),
            "IPYTHONDIR": str(home / "ipython"), "OMP_NUM_THREADS": "1"} | settings
    flags = ["--no-browser", "--ServerApp.port=0"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        flags.append("--allow-root")
    log = home / "server.log"
    with open(log, "wb") as out:
        process = subprocess.Popen([*command, *flags], cwd=folder, env=env, stdout=out,
                                   stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    try:
        yield _description(process, home / "run", log) | {"log": log}
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _description(process, folder, log):
    """Return what the server wrote about itself when it was ready."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and process.poll() is None:
        for path in folder.glob("jpserver-*.json"):
            with contextlib.suppress(ValueError):  # it is still being written
                return json.loads(path.read_text(encoding="utf-8"))
        time.sleep(0.2)
    raise AssertionError("the server did not start:\n" + log.read_text("utf-8", "replace"))
