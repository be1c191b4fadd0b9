"""Write the page where GRPO happens before your eyes: one file, opened by a double click.

    python -m notebooks.explore                                  writes explore.html
    python -m notebooks.explore --lab lab15_grpo.py --out mine.html    with your own numbers
    python -m notebooks.explore --run runs/seed0                 with the curves of your run
    python -m notebooks.explore --run runs/seed0 --run runs/b    with those of two of your runs

The page needs no network and no Python: the model in it samples and learns in your browser.
"""

import argparse
import os
import sys
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

from lab15_run import piped
from notebooks.explore import build


def main(argv=None):
    """Write the page; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m notebooks.explore", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("explore.html"), metavar="FILE",
                        help="the page; default explore.html")
    parser.add_argument("--lab", type=Path, metavar="FILE",
                        help="a lab file: its five functions run on the page's batches")
    parser.add_argument("--run", type=Path, metavar="FOLDER", action="append", default=[],
                        help="the folder of a training run: its curves stand in scene 7; give "
                             "--run again for another run")
    flags = parser.parse_args(argv)
    lab, out, *runs = (path and path.expanduser() for path in (flags.lab, flags.out, *flags.run))
    try:
        if out.is_dir():
            raise ValueError(f"{out} is a folder; give the name of a file with --out")
        if lab and lab.is_file() and sys.stderr.isatty():  # for those who wait
            print(f"running the functions of {lab} on the page's batches: some seconds",
                  file=sys.stderr)
        size = build.write(out, lab, runs)
    except (ValueError, OSError) as error:
        print(f"no page was written: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped; no page was written", file=sys.stderr)
        return 130
    where = "; scene 8 has your numbers" if lab else ""
    where += "; scene 7 has your curves" if runs else ""
    print(f"{out.absolute()} ({size / 1e6:.1f} MB): open it in a browser{where}")
    return 0


if __name__ == "__main__":
    sys.exit(piped(main))
