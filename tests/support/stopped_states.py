"""`pcqc` whose thread stops for ever at a stage of writing a state, to be killed there.

    python -m stopped_states STAGE FILE pcqc's arguments

It stops at the second state that the process writes; FILE appears then.
"""

import shutil
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from pcqc.cli import main
from pcqc.models import folder as folders
from pcqc.training import state

save_file = state.save_file


def half_written(tensors: dict, path: Path) -> None:
    """The first half of a file."""
    whole = path.with_suffix(".whole")
    save_file(tensors, whole)
    content = whole.read_bytes()
    whole.unlink()
    path.write_bytes(content[: len(content) // 2])


def half_removed(path: Path) -> None:
    """A folder without its first file."""
    next(file for file in sorted(path.rglob("*")) if file.is_file()).unlink()


def nothing(*arguments) -> None:
    """The stage is before the function's work."""


# Stage -> module, function, and what of its work is done before it stops. What a kill leaves of an
# old state goes with the next state, so between the two that leave it stand others.
STAGES: dict[str, tuple] = {
    "before the old state goes": (shutil, "rmtree", nothing),
    "before a file": (state, "save_file", nothing),
    "within a file": (state, "save_file", half_written),
    "before the digests": (state, "settle", nothing),
    "while the old state goes": (shutil, "rmtree", half_removed),
    "before the manifest": (folders, "write_json", nothing),
    "before the state has its name": (folders.os, "replace", nothing),
}


def stop_at(stage: str, file: Path) -> None:
    """Have the thread that writes states stop at this stage, once it has written one."""
    module, name, part = STAGES[stage]
    real: Callable = getattr(module, name)
    calls = 0

    def counts(arguments: tuple, others: dict) -> bool:
        """Whether it is the one call for a state: the main thread writes checkpoints."""
        if threading.current_thread() is threading.main_thread():
            return False
        if name not in ("replace", "rmtree"):
            return True
        return Path(arguments[-1]).name.startswith("step-") and not others

    def stopped(*arguments, **others):
        nonlocal calls
        if not counts(arguments, others):
            return real(*arguments, **others)
        calls += 1
        if calls < 2:
            return real(*arguments, **others)
        part(*arguments)
        file.touch()
        threading.Event().wait()

    setattr(module, name, stopped)


if __name__ == "__main__":
    stop_at(sys.argv[1], Path(sys.argv[2]))
    sys.exit(main(sys.argv[3:]))
