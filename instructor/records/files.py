"""Write a file atomically."""

from pathlib import Path

import tinylm


def write(path: Path, content: str | bytes) -> None:
    """Write a file atomically (temporary file, then rename); text is written as UTF-8.

    Raises:
        OSError: it cannot be written; what was there before is unchanged.
    """
    data = content.encode("utf-8") if isinstance(content, str) else content
    tinylm.write_file(path, lambda file: file.write(data))
