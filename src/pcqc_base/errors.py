"""The one exception that a user is meant to read, and how text from outside enters its message."""

import difflib
import errno
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

# What an operating-system error asks for.
REMEDIES = {
    errno.ENOSPC: "free some space on that disk and run again",
    errno.EFBIG: "raise the limit of a file's size (`ulimit -f`) and run again",
    errno.EDQUOT: "free some of your quota on that disk and run again",
    errno.EACCES: "make the folder writable for this user",
    errno.EPERM: "make the folder writable for this user",
    errno.EROFS: "that disk is mounted read-only: choose another folder",
    errno.EEXIST: "a file, or a link to nothing, stands where a folder is needed: move it away",
    errno.ENOTDIR: "a file stands where a folder is needed: move it away",
    errno.EISDIR: "a folder stands where the file belongs: move it away",
    errno.ENOENT: "check the path: make the file first, or correct its name",
}


class UserError(Exception):
    """Something the user can fix: a wrong file, row, setting or machine.

    The message is one line that says what is wrong, where (file and row), and the remedy. The
    command line prints it as ``pcqc: error: <message>`` and exits with status 2; any other
    exception is a defect of this program and keeps its traceback.
    """


def reason(problem: Exception) -> str:
    """The one line of another exception that says what is wrong.

    Of several lines it is the first; where they quote a traceback, the last. Pydantic's name no
    setting of ours and end in a link: of these, what the first fault is.
    """
    pydantic = sys.modules.get("pydantic")  # slow to import; there if the problem is its own
    if pydantic and isinstance(problem, pydantic.ValidationError):
        return problem.errors()[0]["msg"]
    lines = str(problem).strip().splitlines() or [type(problem).__name__]
    return lines[-1 if lines[0].startswith("Traceback") else 0].strip()


def describe(problem: OSError) -> str:
    """One clause for an operating-system error: its reason and, where there is one, the remedy.

    Of a folder that was copied it is the first file's: `shutil` keeps a list of texts.
    """
    if isinstance(problem, shutil.Error) and isinstance(problem.args[0], list):
        first = str(problem.args[0][0][-1])
        number = re.match(r"\[Errno (\d+)\]", first)
        problem = OSError(int(number[1]), "") if number else OSError(first)
    reason = os.strerror(problem.errno) if problem.errno else str(problem)
    remedy = REMEDIES.get(problem.errno or 0)
    return f"{reason}; {remedy}" if remedy else reason


@contextmanager
def writing(path: str | Path) -> Iterator[None]:
    """Tell in one line that a path cannot be written, and what to do.

    Raises:
        UserError: in the place of an operating-system error.
    """
    try:
        yield
    except OSError as problem:
        raise UserError(f"cannot write {path}: {describe(problem)}") from problem


def few(words: Sequence[str], most: int) -> str:
    """`a, b and 3 more`: the first words of a list, and how many are left out."""
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return f"{', '.join(words[:most])}{more}"


def one_line(text: str, most: int = 300) -> str:
    """`text` as one printable line of at most `most` characters, for a message."""
    return printable(text if len(text) <= most else f"{text[:most]}…", keep="")


def printable(text: str, keep: str = "\n") -> str:
    """`text` with what would steer a terminal, as escape sequences do, written as `\\x1b`."""
    return "".join(
        c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text
    )


def nearest(word: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` for the nearest known word, or the list of them."""
    known = list(known)
    plain = {name.lower(): name for name in known}
    match = difflib.get_close_matches(word.lower(), plain, n=1, cutoff=0.5)
    if match:
        return f"; did you mean '{plain[match[0]]}'?"
    return f"; known are {', '.join(sorted(known))}"
