"""What processes beneath this one print: still shown, and remembered.

vLLM's own processes print why they end, tens of lines above the error that reaches this one; what
they log goes to standard output.
"""

import os
import re
import signal
import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

from pcqc_base.errors import reason

KEPT = 1000  # lines
PATIENCE = 2.0  # seconds in which a process that has ended is heard to its end

# Before a line of vLLM's: which process, and of what is logged level, time and place.
_PREFIX = re.compile(r"(\([^()]*pid=\d+\) ?)?([A-Z]+ \d\d-\d\d \d\d:\d\d:\d\d \[[^\]]*\] ?)?")
_PACKAGE = re.compile(r"^(\w+\.)+(?=\w+:)")  # before the name of an exception
_TRACEBACK = "Traceback (most recent call last)"
_ELSEWHERE = re.compile("root cause|stack trace", re.IGNORECASE)
_ENDED = re.compile(r"'([^']+)': (-?\d+)")  # name and exit status


class Overheard:
    """Lines that were printed, by this process or one that it started.

    Args:
        descriptors: those of standard output and standard error.
    """

    def __init__(self, descriptors: tuple[int, ...] = (1, 2)):
        self.lines: deque[str] = deque(maxlen=KEPT)
        self.shown = {number: os.dup(number) for number in descriptors}
        self.threads: list[threading.Thread] = []

    def begin(self) -> None:
        """Take the place of what is shown."""
        for number, shown in self.shown.items():
            reader, writer = os.pipe()
            os.dup2(writer, number)
            os.close(writer)
            thread = threading.Thread(target=self._pass_on, args=(reader, shown), daemon=True)
            thread.start()
            self.threads.append(thread)

    def end(self) -> None:
        """Give it back; who has started meanwhile is heard on."""
        for number, shown in self.shown.items():
            os.dup2(shown, number)

    def _pass_on(self, reader: int, shown: int) -> None:
        """Until nobody can write any more."""
        rest = b""
        while part := os.read(reader, 65536):
            with suppress(OSError):  # nobody reads it any more; who prints must not wait for that
                os.write(shown, part)
            *whole, rest = (rest + part).split(b"\n")
            self.lines.extend(line.decode(errors="replace") for line in whole)
        self.lines.append(rest.decode(errors="replace"))
        os.close(reader)
        os.close(shown)

    def cause(self, problem: Exception) -> str:
        """Why a process beneath this one failed, where this one got `problem`; one line."""
        for thread in self.threads:
            thread.join(PATIENCE)
        if not _ELSEWHERE.search(str(problem)):
            return reason(problem)
        ended = dict(_ENDED.findall(str(problem)))
        killed = {name: -int(status) for name, status in ended.items() if int(status) < 0}
        if cause := last_exception(list(self.lines)):  # threads may add some
            return cause
        if killed:
            name, number = killed.popitem()
            return f"its process {name} was killed ({signal.Signals(number).name})"
        return reason(problem)


@contextmanager
def overhear() -> Iterator[Overheard]:
    """Listen to what is printed; to a process started meanwhile, for as long as it runs."""
    heard = Overheard()
    _flush()
    heard.begin()
    try:
        yield heard
    finally:
        _flush()
        heard.end()


def _flush() -> None:
    sys.stdout.flush()
    sys.stderr.flush()


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
