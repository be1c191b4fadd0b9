"""Record which hidden tests fail with which mistake, to check the names that files report.

    python -m instructor.signatures        rewrites instructor/reporting/signatures.json

The names of mistakes come out of the sandbox, where a student's file can invent them; which hidden
tests fail is the grader's own finding. Every chaff with a known mistake is run on the hidden tests
with several seeds. Run it when hidden tests, chaffs or names of mistakes change.
"""

import json
import sys
import tempfile
import warnings
from collections.abc import Iterable
from pathlib import Path

from lab15_run import counted, piped
from tests.messages.explain import MISTAKES

from .grading import judging
from .records.files import write
from .variants import catalog, direct

FILE = Path(__file__).with_name("reporting") / "signatures.json"
SEEDS = ("one seed for the signatures", "another seed for the signatures")


def failing(variant: catalog.Variant, course: judging.Course, folder: Path) -> tuple[str, ...]:
    """Return the names of the hidden tests that a variant does not pass, in their order.

    Args:
        variant: a Variant.
        course: with the hidden tests.
        folder: for the variant's file.
    """
    passed = direct.verdict(variant.text, variant.task, course, folder)[1]
    tests = course.modules[variant.task].TESTS
    return tuple(test.name for name, test in tests.items() if not passed[name])


def made(chaffs: Iterable[catalog.Variant],
         seeds: Iterable[str] = SEEDS) -> dict[str, list[list[str]]]:
    """Return {mistake: the different sets of hidden tests that fail with it}.

    Args:
        chaffs: with what they do wrong; an "any." name counts once for each task.
        seeds: of the hidden tests.
    """
    chaffs = [v for v in chaffs if v.mistake in MISTAKES]
    found: dict[str, set[tuple[str, ...]]] = {}
    with (tempfile.TemporaryDirectory(prefix="lab15-signatures-") as folder, direct.hooked(),
          warnings.catch_warnings()):
        warnings.simplefilter("ignore")  # what torch thinks of a wrong function
        for seed in seeds:
            course = judging.Course(seed)
            for variant in chaffs:
                names = failing(variant, course, Path(folder))
                for mistake in (variant.mistake, *variant.also):
                    if names and mistake in MISTAKES:
                        found.setdefault(f"{variant.task} {mistake}", set()).add(names)
    return {key: sorted(map(list, sets)) for key, sets in sorted(found.items())}


def main() -> int:
    """Write the file."""
    table = made(catalog.chaffs())
    lines = [f"{json.dumps(key)}: {json.dumps(sets)}" for key, sets in table.items()]
    write(FILE, "{\n" + ",\n".join(lines) + "\n}\n")
    print(f"{counted(len(table), 'mistake')}: {FILE}")
    return 0


if __name__ == "__main__":
    sys.exit(piped(main))
