"""Build what is handed out or shown: bundle, course, Gradescope zip, notebooks, quiz, slides.

    python -m instructor.build bundle --help

Each of them is a module of instructor/builders with add_arguments(parser) and run(flags).
"""

import argparse
import importlib
import sys

from lab15_run import piped

NAMES = ("bundle", "course", "gradescope", "notebooks", "quiz", "slides")


def main(args: list[str] | None = None) -> int:
    """Run one builder; return its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m instructor.build",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", choices=NAMES, help="what to build")
    parser.add_argument("flags", nargs=argparse.REMAINDER, help="its flags; --help lists them")
    chosen = parser.parse_args(args)
    builder = importlib.import_module(f"instructor.builders.{chosen.name}")
    inner = argparse.ArgumentParser(
        prog=f"python -m instructor.build {chosen.name}", description=builder.__doc__
    )
    builder.add_arguments(inner)
    try:
        return int(builder.run(inner.parse_args(chosen.flags)))
    except (OSError, ValueError) as error:
        print(error)
        return 2
    except KeyboardInterrupt:
        print("stopped; the same command starts again")
        return 130


if __name__ == "__main__":
    sys.exit(piped(main))
