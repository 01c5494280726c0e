"""The checkout, or wheel, that this code runs from: its folder and its commit."""

import functools
import os
import subprocess
from pathlib import Path

from pcqc_base.system.terminal import complain

SHIPPED = Path(__file__).resolve().parents[1] / "shipped"  # of a wheel, which setup.py fills
ROOT = SHIPPED if SHIPPED.is_dir() else Path(__file__).resolve().parents[3]
CODE = ("*.py", "*.smk", "Snakefile")
PATIENCE = 60.0  # seconds for an answer of git


def local_folder(name: str) -> Path:
    """A folder that a study names: of the working directory, else of this repository."""
    folder = Path(name).expanduser()
    return folder if folder.is_dir() else ROOT / folder


@functools.cache
def git_commit() -> str:
    """Commit of the checkout, `unknown` where this code is not the top of one.

    It ends in `+changes` where tracked files differ, or code is there that git does not track;
    results count for neither. Where git refuses to read the checkout, a line says so.
    """
    try:
        # An archive that was unpacked inside another repository is not of that one's commit.
        if Path(git("rev-parse", "--show-toplevel")).resolve() != ROOT:
            return "unknown"
        commit = git("rev-parse", "HEAD")
        changed = git("status", "--porcelain", "-uno", "--", ".", ":!results")
        changed += git("ls-files", "-o", "--exclude-standard", "--", *CODE, ":!results")
        return f"{commit}+changes" if changed else commit
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    except subprocess.CalledProcessError as problem:
        if "dubious ownership" in problem.stderr:
            complain(
                f"pcqc: note: the commit is recorded as unknown, since {ROOT} belongs to another "
                f"user; `git config --global --add safe.directory {ROOT}` lets git read it"
            )
        return "unknown"


def git(*arguments: str) -> str:
    """What git prints of the checkout alone, in English."""
    # A hook of git, for example, names the repository that it was called for.
    given = {n: v for n, v in os.environ.items() if n.startswith("GIT_CONFIG") or n[:4] != "GIT_"}
    command = ["git", "-C", str(ROOT), *arguments]
    done = subprocess.run(
        command,
        check=True,
        capture_output=True,
        text=True,
        errors="replace",  # names of files may be any bytes
        env=given | {"LC_ALL": "C"},
        timeout=PATIENCE,
    )
    return done.stdout.strip()
