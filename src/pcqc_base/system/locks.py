"""Locks between processes: a file that is held until its holder ends, however it ends."""

import fcntl
import time
from pathlib import Path
from typing import BinaryIO

from pcqc_base.errors import UserError, writing


def hold(lock: str | Path, what: str, patience: float = 0.0) -> BinaryIO:
    """Hold a lock file until the returned file is closed or the process ends, however it ends.

    Args:
        lock: the file, made where missing.
        what: what it guards, as `a run of the study`, for the error.
        patience: seconds to wait for another process that holds it.

    Raises:
        UserError: another process still holds it, or it cannot be made.
    """
    deadline = time.monotonic() + patience
    with writing(lock):
        Path(lock).parent.mkdir(parents=True, exist_ok=True)
        file = open(lock, "ab")  # noqa: SIM115 (held by the caller)
        while not locked(file):
            if time.monotonic() >= deadline:
                raise UserError(
                    f"{what} is already under way ({lock} is held); wait for it to end, or stop it"
                )
            time.sleep(0.05)
    return file


def held(lock: Path) -> bool:
    """Whether a living process holds a lock file.

    It takes the lock for an instant, shared with others who ask. So `hold` needs a little patience
    where somebody may ask.
    """
    try:
        with open(lock, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def locked(file: BinaryIO) -> bool:
    """Take the lock of an open file; False where another process has it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
