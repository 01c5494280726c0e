"""What processes beneath this one write to standard error: still shown, and remembered.

vLLM's own processes print why they end, tens of lines above the error that reaches this one.
"""

import os
import re
import signal
import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from pcqc.errors import reason

KEPT = 1000  # lines
PATIENCE = 2.0  # seconds in which a process that has ended is heard to its end

# Before a line of vLLM's: which process, and of what is logged level, time and place.
_PREFIX = re.compile(r"(\([^()]*pid=\d+\) ?)?([A-Z]+ \d\d-\d\d \d\d:\d\d:\d\d \[[^\]]*\] ?)?")
_PACKAGE = re.compile(r"^(\w+\.)+(?=\w+:)")  # before the name of an exception
_TRACEBACK = "Traceback (most recent call last)"
_ELSEWHERE = re.compile("root cause|stack trace", re.IGNORECASE)
_ENDED = re.compile(r"'([^']+)': (-?\d+)")  # name and exit status


class Overheard:
    """Lines that were written to standard error, by this process or one that it started."""

    def __init__(self):
        self.lines: deque[str] = deque(maxlen=KEPT)
        self.reader, self.writer = os.pipe()
        self.shown = os.dup(2)
        self.thread = threading.Thread(target=self._pass_on, daemon=True)

    def _pass_on(self) -> None:
        rest = b""
        while part := os.read(self.reader, 65536):
            os.write(self.shown, part)
            *whole, rest = (rest + part).split(b"\n")
            self.lines.extend(line.decode(errors="replace") for line in whole)
        self.lines.append(rest.decode(errors="replace"))
        os.close(self.reader)
        os.close(self.shown)

    def cause(self, problem: Exception) -> str:
        """Why a process beneath this one failed, where this one got `problem`; one line."""
        self.thread.join(PATIENCE)
        if not _ELSEWHERE.search(str(problem)):
            return reason(problem)
        ended = dict(_ENDED.findall(str(problem)))
        killed = {name: -int(status) for name, status in ended.items() if int(status) < 0}
        if found := last_exception(self.lines):
            return found
        if killed:
            name, number = killed.popitem()
            return f"its process {name} was killed ({signal.Signals(number).name})"
        return reason(problem)


@contextmanager
def overhear() -> Iterator[Overheard]:
    """Listen to standard error; to a process started meanwhile, for as long as it runs."""
    heard = Overheard()
    sys.stderr.flush()
    os.dup2(heard.writer, 2)
    os.close(heard.writer)
    heard.thread.start()
    try:
        yield heard
    finally:
        sys.stderr.flush()
        os.dup2(heard.shown, 2)


def last_exception(lines: Iterable[str]) -> str | None:
    """The exception that ends the last traceback of the process that was the first to print one.

    What only points to another's, as vLLM's own do, is none.
    """
    inside: set[str] = set()
    last: dict[str, str] = {}
    for line in lines:
        prefix = _PREFIX.match(line)
        process, text = prefix[1] or "", line[prefix.end() :]
        if text.startswith(_TRACEBACK):
            inside.add(process)
        elif process in inside and text.strip() and not text[0].isspace():
            inside.remove(process)
            if not _ELSEWHERE.search(text):
                last[process] = _PACKAGE.sub("", text.strip())
    return next(iter(last.values()), None)
