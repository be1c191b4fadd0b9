"""Write a file whole or not at all."""

from pathlib import Path

import tinylm


def write(path: Path, content: str | bytes) -> None:
    """Write a file by way of a temporary name, text as UTF-8; whoever reads it finds all of it.

    Raises:
        OSError: it cannot be written; what was there before is unchanged.
    """
    data = content.encode("utf-8") if isinstance(content, str) else content
    tinylm.write_file(path, lambda file: file.write(data))
