"""List at the end of a run what was skipped, and why: a reason names the command that helps.

pytest's own list would be a student's, too, so -rN hides it. This one is printed where
instructor/tests or beyond/tests take part in a run.
"""

import os
import re
import sys
import textwrap
from collections import Counter
from pathlib import Path

import pytest

from tests.labfile import ROOT, ascii_line

PLUGIN = "lab15-skips"
CACHED = "lab15/skipped"  # in pytest's cache: the ids, to run these alone later


def show_at_the_end(config):
    """Let this run end with the list."""
    if not config.pluginmanager.has_plugin(PLUGIN):
        config.pluginmanager.register(Summary(), PLUGIN)


class Summary:
    """The plugin that prints the list."""

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter, config):
        """Print each reason with its tests; keep their ids for another run."""
        if config.option.collectonly:
            return
        reports = terminalreporter.stats.get("skipped", [])
        if hasattr(config, "cache"):
            config.cache.set(CACHED, sorted({report.nodeid for report in reports}))
        for line in lines([(reason(report), report.nodeid) for report in reports]):
            terminalreporter.write_line(line)


def reason(report):
    """Return why a test, or a whole file, was skipped."""
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    text = re.sub(r"^Skipped: ", "", text)
    return ascii_line(re.sub(r"(?<!-m )pip install", f"{python()} -m pip install", text), 200)


def python():
    """Return this Python as one would type it in the top folder."""
    path = Path(os.path.normpath(sys.executable))
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else "python"


def lines(skipped):
    """Return the list as lines, from (reason, id) of each skip; none if nothing was skipped."""
    files = {}
    for why, name in skipped:
        files.setdefault(why, Counter())[name.partition("::")[0]] += 1
    found = ["", f"skipped: {len(skipped)} (a file that is skipped as a whole counts as one)"]
    for why, counts in sorted(files.items(), key=lambda entry: -entry[1].total()):
        found.append(f"{counts.total():>5}  {why or 'no reason given'}")
        found += textwrap.wrap(", ".join(sorted(counts)), 100, initial_indent=" " * 7,
                               subsequent_indent=" " * 7, break_on_hyphens=False)
    return found if skipped else []
