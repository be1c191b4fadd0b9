"""Run a student's notebook with limits on time, memory and output; make its outputs harmless."""

import re
import time
from typing import Any

from nbformat.notebooknode import NotebookNode
from nbformat.v4 import new_output
from nbgrader.preprocessors import Execute
from traitlets import Float, Integer, List

from . import kernel

RAN = "lab15_cells_that_ran"  # in the resources: the grade_ids of cells that ended without an error
TOO_MUCH = "(the notebook's output is too long; from here on it is left out)\n"
IMAGES = ("image/png", "image/jpeg")
MOST_LINES = 40  # of a traceback
MOST_TEXT, MOST_IMAGE, MOST_OUTPUTS = 10_000, 4 << 20, 50  # of a cell


class SafeExecute(Execute):
    """nbgrader's Execute in a sandbox; it never raises on account of a student's notebook.

    Stock nbgrader gives up the whole submission when a kernel dies.
    """

    timeout: Any  # nbgrader's, of one cell
    seconds = Float(120.0, help="for all cells of a notebook together").tag(config=True)
    most_bytes = Integer(8 << 20, help="output of a notebook that is read").tag(config=True)
    hidden: Any = List([], help="folders that no student's cell may see").tag(config=True)

    def __init__(self, *args: Any, **kwargs: Any):
        if not kernel.trusted():
            kwargs["kernel_manager_class"] = kernel.SandboxKernelManager
        super().__init__(*args, **kwargs)
        self.store_widget_state = False
        self.shutdown_kernel = "immediate"  # nothing in it is worth waiting for

    def preprocess(self, nb: NotebookNode, resources: Any, km: Any = None) -> Any:
        """Run all cells; list those that ran in resources[RAN].

        Raises:
            NoSandbox: there is none, and the notebook was not run.
        """
        if not kernel.trusted() and (reason := kernel.problem()):
            # Not the student's fault: no verdict, and nothing was run.
            raise kernel.NoSandbox(f"{reason}. {kernel.REMEDY}")
        ran: set[str] = set()
        resources[RAN] = self.ran = ran
        self.end, self.bytes = time.monotonic() + self.seconds, 0
        for attempt in (1, 2):
            self.started = False
            try:
                nb, resources = super().preprocess(nb, resources, km)
                break
            except kernel.NoSandbox:
                raise
            except Exception as error:  # DeadKernelError, or messages that make no sense
                if not self.started and attempt == 2:
                    raise  # no student's code has run yet: not their fault, and no verdict
                self.log.warning("the notebook was stopped: %s", type(error).__name__)
                if self.started:
                    break
        resources[RAN] = ran
        for cell in nb.cells:
            if cell.cell_type == "code":
                cell.outputs = clean(cell.get("outputs", []))
                cell.execution_count = None  # comes from the student's kernel
        nb.metadata.pop("widgets", None)
        return nb, resources

    def create_kernel_manager(self) -> Any:
        """Return a kernel manager that knows what to hide."""
        km = super().create_kernel_manager()
        if isinstance(km, kernel.SandboxKernelManager):
            km.hidden = tuple(self.hidden)
        return km

    def preprocess_cell(self, cell: Any, resources: Any, index: int) -> Any:
        """Run a cell, unless the notebook has used up its time."""
        self.started = True
        left = self.end - time.monotonic()
        if left <= 0:
            return cell, resources
        whole = self.timeout
        self.timeout = max(1, min(whole, int(left)))
        try:
            return super().preprocess_cell(cell, resources, index)
        finally:
            self.timeout = whole

    def on_cell_executed(self, **kwargs: Any) -> None:
        """Note the cells that ended well."""
        super().on_cell_executed(**kwargs)
        grade_id = kwargs["cell"].metadata.get("nbgrader", {}).get("grade_id")
        if grade_id and kwargs["execute_reply"]["content"]["status"] == "ok":
            self.ran.add(grade_id)

    def process_message(self, msg: Any, cell: Any, cell_index: int) -> Any:
        """Read a message of the kernel, as long as there are not too many of them."""
        if msg["msg_type"] in ("status", "execute_input"):
            return super().process_message(msg, cell, cell_index)
        full = self.bytes >= self.most_bytes
        self.bytes += 0 if full else len(repr(msg["content"]))
        if self.bytes >= self.most_bytes and not full:
            cell.outputs.append(new_output("stream", name="stdout", text=TOO_MUCH))
        if self.bytes >= self.most_bytes or msg["msg_type"].startswith("comm"):
            return None
        return super().process_message(msg, cell, cell_index)


# ---------------------------------------------------------------- what is shown to the teacher


def clean(outputs: Any) -> list[NotebookNode]:
    """Return outputs of plain text and pixels only: the teacher's browser runs no student's code.

    Formgrader shows HTML and SVG as they are, with the rights of your Jupyter server.
    """
    found, outputs = [], list(outputs)
    for output in outputs[:MOST_OUTPUTS]:
        kind = output.get("output_type")
        if kind == "stream":
            # Text on stderr would count as a failed test.
            found.append(new_output("stream", name="stdout", text=_text(output.get("text"))))
        elif kind == "error":
            lines = [_text(line, 2000) for line in list(output.get("traceback") or [])]
            if len(lines) > MOST_LINES:
                rest = len(lines) - MOST_LINES
                lines = [*lines[:MOST_LINES], f"({rest} more line{'s' * (rest > 1)} left out)"]
            name, value = _text(output.get("ename"), 80), _text(output.get("evalue"), 500)
            found.append(new_output("error", ename=name, evalue=value, traceback=lines))
        elif kind in ("display_data", "execute_result"):
            if data := _harmless(output.get("data")):
                found.append(new_output("display_data", data=data))
    if (more := len(outputs) - MOST_OUTPUTS) > 0:
        text = f"(and {more} more output{'s' * (more != 1)} of this cell, left out)\n"
        found.append(new_output("stream", name="stdout", text=text))
    return found


def _text(value: Any, most: int = MOST_TEXT) -> str:
    text = value if isinstance(value, str) else str(value)[:most]
    text = re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f\ud800-\udfff]", "?", text)
    return text if len(text) <= most else text[:most] + "\n... cut here ..."


def _harmless(data: Any) -> dict[str, str]:
    """Return an image if there is one, else the text."""
    data = data if isinstance(data, dict) else {}
    for kind in IMAGES:
        value = data.get(kind)
        if isinstance(value, str) and len(value) <= MOST_IMAGE:
            if re.fullmatch(r"[A-Za-z0-9+/=\s]+", value):
                return {kind: value}
    return {"text/plain": _text(data["text/plain"])} if "text/plain" in data else {}
