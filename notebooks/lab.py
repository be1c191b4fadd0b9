"""Open the notebooks in JupyterLab.

    python -m notebooks.lab

The server's root is the lab's folder, from wherever it is started, so that a notebook's links to
the chapter open, and lab15_grpo.py can be edited beside it. The first time both are side by side;
later every tab is where it was. The menus of nbgrader, which are for courses, are left out. The
settings for that are in notebooks/jupyter; they hold for this server only, and the user's own
settings of Jupyter hold for everything else.

Flags are those of `jupyter lab`, such as --no-browser and --port 8899.
"""

import os
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
SETTINGS = TOP / "notebooks" / "jupyter"
# A workspace of its own: tabs of the user's other projects, left open, are not looked for here.
WORKSPACE = "lab15"
START = f"/lab/workspaces/{WORKSPACE}/tree/notebooks/1_by_hand.ipynb"


def environment(environ):
    """Return what to set in the environment so that Jupyter reads SETTINGS before all others."""
    paths = [str(SETTINGS), environ.get("JUPYTER_CONFIG_PATH", "")]
    return {"JUPYTER_CONFIG_PATH": os.pathsep.join(filter(None, paths))}


def workspaces(folder):
    """Return the flags that keep the open tabs in a folder, where a first layout is put.

    Where nothing can be written they stay where JupyterLab keeps those of other projects.
    """
    from jupyterlab_server.workspaces_handler import WorkspacesManager

    try:
        folder.mkdir(exist_ok=True)
        if not list(folder.glob("*.jupyterlab-workspace")):
            layout = (SETTINGS / "side_by_side.json").read_text(encoding="utf-8")
            WorkspacesManager(str(folder)).save(WORKSPACE, layout)
    except OSError:
        return []
    return [f"--LabApp.workspaces_dir={folder}"]


def main(argv=None):
    """Start JupyterLab with the flags given; return when it has ended."""
    argv = sys.argv[1:] if argv is None else argv
    # A file of the student's called random.py must not stand in for Python's.
    sys.path[:] = [p for p in sys.path if Path(p).resolve() not in (TOP, TOP / "notebooks")]
    os.environ |= environment(os.environ)
    try:
        from jupyterlab.labapp import LabApp
    except ImportError as error:
        sys.exit(f"JupyterLab does not start ({error}). This is {sys.executable}: activate the "
                 "lab's .venv, or run  python -m pip install -r requirements.txt")
    flags = [f"--ServerApp.root_dir={TOP}", f"--LabApp.default_url={START}"]
    LabApp.launch_instance([*flags, *workspaces(TOP / ".jupyter"), *argv])


if __name__ == "__main__":
    main()
