"""Progress of long work: a bar on a terminal, timestamped lines elsewhere; and time per phase."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tqdm import tqdm

SECONDS_BETWEEN_LINES = 15.0


class Progress:
    """Counts finished units of work, with rate and time left.

    Args:
        label: what is running, such as `train pcqc A`.
        total: number of units.
        unit: name of a unit.
        done: units finished before, in a resumed run.
        silent: show nothing; another process does.
    """

    def __init__(self, label: str, total: int, unit: str, done: int = 0, silent: bool = False):
        self.label, self.total, self.unit, self.silent = label, total, unit, silent
        self.first = self.done = done
        self.started = self.printed = time.monotonic()
        self.bar = None
        if sys.stderr.isatty() and not silent:
            self.bar = tqdm(desc=label, total=total, unit=unit, initial=done, dynamic_ncols=True)
        else:
            self._print(f"from {done} of {total} {unit}s")

    def advance(self, **metrics: float) -> None:
        """Count one unit, and show metrics beside it."""
        self.done += 1
        shown = {name: f"{value:.3g}" for name, value in metrics.items()}
        if self.bar is not None:
            self.bar.set_postfix(shown, refresh=False)
            self.bar.update(1)
            return
        now = time.monotonic()
        if now - self.printed >= SECONDS_BETWEEN_LINES or self.done == self.total:
            self.printed = now
            rate = (self.done - self.first) / max(now - self.started, 1e-9)
            left = (self.total - self.done) / rate
            parts = " ".join(f"{name} {value}" for name, value in shown.items())
            self._print(
                f"{self.done}/{self.total} {self.unit}s, {rate:.2f}/s, {left:.0f} s left {parts}"
            )

    def close(self) -> None:
        """End the bar."""
        if self.bar is not None:
            self.bar.close()

    def _print(self, text: str) -> None:
        if self.silent:
            return
        clock = time.strftime("%Y-%m-%d %H:%M:%S")
        print(f"{clock} {self.label}: {text}", file=sys.stderr, flush=True)


class Phases:
    """Seconds spent in each phase of some work."""

    def __init__(self):
        self.seconds: dict[str, float] = {}

    @contextmanager
    def time(self, name: str) -> Iterator[None]:
        """Add the time inside to the phase `name`."""
        start = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start
