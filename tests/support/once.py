"""What takes long to make and is read by many tests: made by one worker, used by all."""

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path


def once(tmp_path_factory, name: str, make: Callable[[Path], str | None]) -> Path:
    """A folder of the whole test run, which `make` fills once; its answer is in `<name>.made`."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    folder, made = shared / name, shared / f"{name}.made"
    with open(shared / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            shutil.rmtree(folder, ignore_errors=True)
            made.write_text(make(folder) or "")
    return folder
