"""The checkout that this code runs from: its folder and its commit."""

import functools
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def local_folder(name: str) -> Path:
    """A folder that a study names: of the working directory, else of this repository."""
    folder = Path(name).expanduser()
    return folder if folder.is_dir() else ROOT / folder


@functools.cache
def git_commit() -> str:
    """Commit of the checkout, `unknown` outside git.

    It ends in `+changes` where tracked files differ, other than results.
    """
    try:
        commit = _git("rev-parse", "HEAD")
        changed = _git("status", "--porcelain", "-uno", "--", ".", ":!results")
        return f"{commit}+changes" if changed else commit
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
