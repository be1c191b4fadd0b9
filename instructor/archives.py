"""The zips that course systems give: Moodle, Canvas, Gradescope. Nothing in them is trusted."""

import re
import zipfile
from pathlib import Path, PurePosixPath

MOST, LARGEST = 20000, 2 << 20  # entries of a zip; bytes of a file in it
MOODLE = re.compile(r"(?P<student>.+)_\d+_assignsubmission_file_?")
CANVAS = re.compile(
    r"(?P<student>[^_/]+)(?P<late>_LATE)?_\d+_(?P<time>\d+)_(?P<name>.+?)(-(?P<attempt>\d+))?\.py"
)


def unpack(path, folder):
    """Write the .py files of a zip to folder/STUDENT/, and return what there is to note.

    Args:
        path: a zip of Moodle, Canvas or Gradescope, or of student folders.
        folder: an empty folder.

    Returns: {student: note}, for those who were late or sent more than one attempt.

    Raises:
        ValueError: it is no zip, or holds more than a class can have sent.
    """
    try:
        with zipfile.ZipFile(path) as file:
            entries = [e for e in file.infolist() if e.filename.endswith(".py")]
            if len(file.infolist()) > MOST:
                raise ValueError(f"{path} holds more than {MOST} files")
            chosen, notes = _choose(entries)
            for (student, name), entry in chosen.items():
                target = Path(folder, student, name)
                target.parent.mkdir(parents=True, exist_ok=True)
                with file.open(entry) as source:  # what is too large is cut, and refused later
                    target.write_bytes(source.read(LARGEST))
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, OSError, EOFError) as error:
        raise ValueError(f"{path} cannot be unpacked ({type(error).__name__})") from None
    return notes


def _choose(entries):
    """Return ({(student, file name): entry}, {student: note}); the last attempt counts."""
    best, notes = {}, {}
    for entry in entries:
        parts = [_safe(p) for p in PurePosixPath(entry.filename).parts if p not in ("/", ".", "..")]
        canvas = CANVAS.fullmatch(parts[-1])
        if canvas:
            student, name = canvas["student"], canvas["name"] + ".py"
            order = (int(canvas["attempt"] or 0), int(canvas["time"]))
            if canvas["late"]:
                notes[student] = "handed in late"
        elif len(parts) > 1:
            moodle = MOODLE.fullmatch(parts[0])
            student, name, order = moodle["student"] if moodle else parts[0], parts[-1], (0, 0)
        else:
            student, name, order = parts[0].removesuffix(".py"), parts[0], (0, 0)
        old = best.get((student, name))
        if old is None or order >= old[0]:
            best[student, name] = (order, entry)
    return {key: entry for key, (_, entry) in best.items()}, notes


def _safe(part):
    """Return a part of a path that stays where it is put."""
    return re.sub(r"[^\w .,@()'+-]", "_", part)[:100].strip(". ") or "_"
