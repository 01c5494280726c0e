"""A process that ends with the one that started it."""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # of Linux's prctl


def end_with(parent: int, by: int = signal.SIGKILL) -> None:
    """Have the system send this process a signal when its parent ends, however that ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, by)
    if os.getppid() != parent:
        raise SystemExit(1)
