"""List at the end of a run what was skipped, and why: a reason names the command that helps.

pytest's own list would be a student's, too, so -rN hides it. This one is printed where
instructor/tests or beyond/tests take part in a run.
"""

import re
from collections import Counter

import pytest

from tests.labfile import ascii_line

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
        """Print each reason once with its count; keep the ids for another run."""
        if config.option.collectonly:
            return
        reports = terminalreporter.stats.get("skipped", [])
        if hasattr(config, "cache"):
            config.cache.set(CACHED, sorted({report.nodeid for report in reports}))
        for line in lines(Counter(map(reason, reports))):
            terminalreporter.write_line(line)


def reason(report):
    """Return why a test, or a whole file, was skipped."""
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return ascii_line(re.sub(r"^Skipped: ", "", text), 200) or "no reason given"


def lines(counts):
    """Return the list as lines, the most frequent reason first; none if nothing was skipped."""
    if not counts:
        return []
    head = ["", f"skipped: {sum(counts.values())} (a whole file counts as one)"]
    return head + [f"{n:>5}  {why}" for why, n in counts.most_common()]
