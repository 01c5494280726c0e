"""Ways to damage a file, and what following an error line means."""

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    if content:
        content[len(content) // 2] ^= 1
    path.write_bytes(content or b"\0")


DAMAGES: dict[str, Callable[[Path], object]] = {
    "deleted": Path.unlink,
    "cut short": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "a byte flipped": _flip,
    "{}": lambda path: path.write_text("{}"),
}


_STEP = re.compile(r"\b(?P<what>remove|move) (?P<path>\S+)(?: away)?(?= \(| and run)")


def follow(line: str, folder: Path, aside: Path) -> Path:
    """Do what an error line says; what it named. `run the workflow again` is left to do.

    Args:
        line: of the error.
        folder: that relative paths start from.
        aside: where results are moved to.
    """
    step = _STEP.search(line.rpartition(": ")[2]) or _STEP.search(line)
    assert step, f"no remedy in: {line}"
    path = folder / step["path"]
    assert path.exists(), f"{line}: {path} is missing"
    if step["what"] == "move":
        aside.mkdir(parents=True, exist_ok=True)
        shutil.move(path, aside / f"{len(os.listdir(aside))}-{path.name}")
    else:
        path.unlink()
    return path
