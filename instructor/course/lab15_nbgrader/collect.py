"""For nbgrader zip_collect: one zip a student, of which only two files are taken.

nbgrader's own plugins unpack whatever is in a zip, as large as it may grow, drop .py files, and
end the whole command where a student has packed a file twice.
"""

import hashlib
import os
import re
import shutil
import unicodedata
import zipfile
from pathlib import Path, PurePosixPath
from typing import Any

from nbgrader.plugins.zipcollect import ExtractorPlugin, FileNameCollectorPlugin

WANTED = ("lab15.ipynb", "lab15_grpo.py")
LARGEST, MOST = 20 << 20, 5000  # bytes of a file; entries of a zip
# ada.zip, ada_lab15.zip, ada_attempt_2026-11-29-12-00-00_lab15.zip, and what Moodle makes of them
MOODLE = r"_(?P<number>\d+)_assignsubmission_[a-z]+(?:_.*)?"
NAME = re.compile(
    r"(?P<student_id>[^\W_][\w .@+'-]*?)"
    r"(?:_attempt_(?P<timestamp>\d{4}(?:-\d\d){5})(?:_.*)?|" + MOODLE + "|_lab15)?"
)


def take(path: Path, folder: Path) -> list[str]:
    """Write the wanted files of a zip to a folder; return what is odd about it."""
    notes = []
    try:
        with zipfile.ZipFile(path) as file:
            entries = file.infolist()
            if (more := len(entries) - MOST) > 0:
                notes.append(f"{more} file{'s' * (more != 1)} beyond the first {MOST} "
                             f"{'was' if more == 1 else 'were'} not looked at")
                entries = entries[:MOST]
            for name in WANTED:
                found = [e for e in entries if PurePosixPath(e.filename).name == name]
                # Hidden copies are what macOS adds.
                found = [e for e in found if "__MACOSX" not in e.filename]
                if not found:
                    notes.append(f"no {name}")
                    continue
                best = min(found, key=lambda e: e.filename.count("/"))
                if len(found) > 1:
                    notes.append(f"{len(found)} files {name}: {best.filename!a} is taken")
                folder.mkdir(parents=True, exist_ok=True)
                with file.open(best) as source:
                    data = source.read(LARGEST + 1)
                if len(data) > LARGEST:
                    notes.append(f"{name} is larger than {LARGEST >> 20} MiB, and was cut")
                (folder / name).write_bytes(data[:LARGEST])
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, ValueError) as error:
        notes.append(f"it cannot be unpacked ({type(error).__name__})")
    except Exception as error:  # zlib.error and others of a damaged archive
        notes.append(f"it cannot be unpacked ({type(error).__name__})")
    return notes


class Extractor(ExtractorPlugin):
    """Unpacks archive/STUDENT.zip to extracted/STUDENT/."""

    def extract(self, archive_path: str, extracted_path: str) -> None:
        """Unpack all zips of a folder; see nbgrader."""
        for path in sorted(Path(archive_path).glob("*.zip")):
            folder = Path(extracted_path, path.stem)
            if notes := take(path, folder):
                self.log.warning("%s: %s", path.name, "; ".join(notes))
            if not folder.exists() and NAME.fullmatch(path.stem):
                folder.mkdir(parents=True)  # also a zip without anything useful was handed in
                (folder / "handed_in.txt").touch()
        for path in sorted(Path(archive_path).iterdir()):
            if path.suffix != ".zip":
                self.log.warning("%s is no zip, and left out", path.name)


class Collector(FileNameCollectorPlugin):
    """Tells whose a file in extracted/ is."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.seen: set[tuple[str, str]] = set()

    def collect(self, submitted_file: str) -> dict[str, Any] | None:
        """Return the student, the file's name, and the time if it is in the zip's name."""
        path = Path(submitted_file)
        match = NAME.fullmatch(path.parent.name)
        if not match or path.name not in (*WANTED, "handed_in.txt"):
            return None
        info = {k: v for k, v in match.groupdict().items() if v and k != "number"}
        info["file_id"] = path.name
        key = (info["student_id"], path.name)
        if key in self.seen and "timestamp" not in info:
            self.log.warning("%s: of several zips the first was taken", info["student_id"])
            return None
        self.seen.add(key)
        return info


def plain_name(name: str) -> str:
    """Return a student's name without what a web page could take for more than a name.

    nbgrader's pages write it into their HTML as it is.
    """
    odd = ("Cc", "Cf", "Cs", "Co", "Cn")
    return "".join(
        "_" if c in "<>\"&`\\{}" or unicodedata.category(c) in odd else c for c in name
    )


def from_folder(source: Path, target: Path) -> list[str]:
    """Copy a folder of student folders to submitted/STUDENT/lab15/, links left out.

    Returns a line for every name that was changed, and for what was not copied.
    """
    notes = []
    folders = [p for p in sorted(source.iterdir()) if p.is_dir() and not p.is_symlink()]
    folders = [p for p in folders if not p.name.startswith((".", "__"))]
    names = [re.sub(MOODLE + r"\Z", "", p.name) for p in folders]
    for student, name in zip(folders, names, strict=True):
        if names.count(name) > 1:  # two people of one name: with Moodle's number
            name = re.sub(MOODLE + r"\Z", r" (\g<number>)", student.name)
        if (plain := plain_name(name)) != name:
            tag = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
            notes.append(f"{name!a} is called '{plain}-{tag}'")
            name = f"{plain}-{tag}"
        folder = target / name / "lab15"
        folder.mkdir(parents=True, exist_ok=True)
        files, left = _files(student), []
        for path in files:
            # nbgrader would take a timestamp.txt for its own, and believe the time in it.
            if path.name == "timestamp.txt":
                continue
            if path.stat().st_size <= LARGEST:
                shutil.copyfile(path, folder / path.name)
            else:
                left.append(path)
        if left:
            notes.append(f"{name!a}: {len(left)} file{'s' * (len(left) != 1)} larger than "
                         f"{LARGEST >> 20} MiB, left out: "
                         f"{', '.join(ascii(p.name) for p in left[:3])}")
        if not any(p.name in WANTED for p in files if p not in left):
            notes.append(f"{name!a}: neither {WANTED[0]} nor {WANTED[1]}; there is: "
                         f"{_named(files)}")
    return notes


def _named(files: list[Path], most: int = 4) -> str:
    """Return the first names, and how many more there are."""
    names = [ascii(p.name[:60]) for p in files]
    return ", ".join(names[:most]) + f" and {len(names) - most} more" * (len(names) > most) \
        or "nothing"


def _files(student: Path) -> list[Path]:
    """Return the files of a folder, or of the one below it that has the wanted files."""
    for name in WANTED:
        found = sorted(student.rglob(name), key=lambda p: (len(p.parts), p))
        if found := [p for p in found if not p.is_symlink()]:
            student = found[0].parent
            break
    return [p for p in sorted(student.iterdir()) if os.path.isfile(p) and not p.is_symlink()]
