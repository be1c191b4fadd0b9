"""The settings, and what nbgrader calls before and after its own work."""

from pathlib import Path
from typing import Any

import nbgrader
from nbconvert.preprocessors import ClearMetadataPreprocessor, CSSHTMLHeaderPreprocessor
from nbgrader.preprocessors import AssignLatePenalties, CheckCellMetadata, GetGrades

from . import repair
from .collect import Collector, Extractor
from .execute import IMAGES, SafeExecute
from .export import TaskColumns
from .scores import LAB_FILE, ExternalScores, HideHiddenTests, SaveScores
from .show import Harmless, as_text, markdown2html

ASSIGNMENT = repair.ASSIGNMENT


def repair_before(here: Path) -> Any:
    """Return what autograde calls before each submission, from formgrader's buttons too."""

    def hook(notebooks: list[str], **_: Any) -> None:
        for folder in {Path(name).parent for name in notebooks}:
            if folder.name == ASSIGNMENT:
                repair.repair_one(here, folder.parent.name)

    return hook


def pages_only(here: Path) -> Any:
    """Return what generate_feedback calls after each: a student gets no copy of the given files."""

    def hook(notebooks: list[str], **_: Any) -> None:
        for folder in {Path(name).parent for name in notebooks}:
            back = here / "feedback" / folder.parent.name / folder.name
            for path in sorted(back.rglob("*"), reverse=True):
                if path.is_dir() and not path.is_symlink():
                    path.rmdir()
                elif path.suffix != ".html":
                    path.unlink()

    return hook


def configure(c: Any, here: Path, hidden: list[str]) -> None:
    """Fill in nbgrader's configuration for a course folder.

    Args:
        c: nbgrader's configuration.
        here: the course folder.
        hidden: folders that students' cells must not see.
    """
    c.CourseDirectory.root = str(here)
    c.CourseDirectory.course_id = "lab15"
    c.CourseDirectory.ignore = [".ipynb_checkpoints", "*.pyc", "__pycache__", ".pytest_cache"]
    c.Exchange.root = str(here / "exchange")
    # Else the stub replaces every student's file.
    c.Autograde.exclude_overwriting = {ASSIGNMENT: [LAB_FILE]}
    c.Autograde.pre_convert_hook = repair_before(here)
    c.Autograde.autograde_preprocessors = [
        SafeExecute,
        ExternalScores,
        ClearMetadataPreprocessor,
        SaveScores,
        AssignLatePenalties,
        CheckCellMetadata,
    ]
    c.SafeExecute.timeout = c.Execute.timeout = c.ExecutePreprocessor.timeout = 60
    c.SafeExecute.hidden = hidden
    c.ExternalScores.results = c.TaskColumns.results = str(here / "results")
    c.GenerateFeedback.preprocessors = [GetGrades, HideHiddenTests, CSSHTMLHeaderPreprocessor]
    c.GenerateFeedback.post_convert_hook = pages_only(here)
    c.HTMLExporter.sanitize_html = True
    c.HTMLExporter.preprocessors = [Harmless]
    c.HTMLExporter.filters = {"markdown2html": markdown2html, "clean_html": as_text}
    theirs = Path(nbgrader.__file__).parent / "server_extensions" / "formgrader" / "templates"
    ours = Path(__file__).with_name("templates")
    c.HTMLExporter.extra_template_basedirs = [str(ours), str(theirs)]
    c.NbConvertBase.display_data_priority = [*IMAGES, "text/plain"]
    c.ZipCollectApp.extractor_plugin = Extractor
    c.ZipCollectApp.collector_plugin = Collector
    c.ExportApp.plugin_class = TaskColumns
