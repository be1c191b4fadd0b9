"""nbgrader 0.9.6 for this lab; the settings are in lab15_nbgrader/hooks.py.

The points of task1 to task5 come from results/, which `python -m instructor.grade submitted --out
results` writes. The cells that students have written run in a sandbox.
"""

import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
if str(HERE) not in sys.path:
    sys.path.insert(0, str(HERE))
# nbgrader calls `alembic` by its name.
os.environ["PATH"] = os.path.dirname(sys.executable) + os.pathsep + os.environ.get("PATH", "")
os.environ.setdefault("OMP_NUM_THREADS", "1")

from lab15_nbgrader import hooks  # noqa: E402

REPOSITORY = "@REPOSITORY@"  # hidden from students' cells if it is inside Python's folder

hooks.configure(get_config(), HERE, [str(HERE), REPOSITORY])  # noqa: F821
