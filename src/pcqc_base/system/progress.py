"""Progress of long work: a bar on a terminal, timestamped lines elsewhere; and time per phase."""

import logging
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
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


class TimeLeft(logging.Handler):
    """Says after each job of a workflow how long the others may take.

    It hears the events of Snakemake's log, whose names and fields its interface for logger plugins
    has. Jobs not yet done are taken to last as long as those of their rule have, and to run as many
    at once as have run so far.

    Args:
        took: rule -> seconds that each of its jobs has taken before, none where none has run; of
            all rules whose jobs take time.
    """

    def __init__(self, took: Mapping[str, list[float]]):
        super().__init__()
        self.took = {rule: [*seconds] for rule, seconds in took.items()}
        self.left: Counter[str] = Counter()
        self.running: dict[int, tuple[str, float]] = {}  # id -> rule, when it began
        self.first: float | None = None
        self.worked = 0.0  # seconds that ended jobs took

    def emit(self, record: logging.LogRecord) -> None:
        """Take notice of an event, and print a line where Snakemake says how far it is."""
        told, now = vars(record), time.monotonic()
        match told.get("event"):
            case "run_info":
                self.left.update({r: n for r, n in told["stats"].items() if r in self.took})
            case "job_info" if told["rule_name"] in self.took:
                self.first = now if self.first is None else self.first
                self.running[told["jobid"]] = told["rule_name"], now
            case "job_finished" if told["job_id"] in self.running:
                rule, begun = self.running.pop(told["job_id"])
                self.took[rule].append(now - begun)
                self.worked += now - begun
                self.left[rule] -= 1
            case "job_error":
                self.running.pop(told["jobid"], None)
            case "progress" if text := self.text(now):
                print(text, file=sys.stderr, flush=True)

    def text(self, now: float) -> str:
        """Such as `about 12 min left, without 3 jobs of a kind that has not run yet`."""
        means = {rule: sum(took) / max(1, len(took)) for rule, took in self.took.items()}
        unknown = sum(count for rule, count in self.left.items() if not self.took[rule])
        so_far = [(rule, now - begun) for rule, begun in self.running.values()]
        seconds = sum(count * means[rule] for rule, count in self.left.items())
        seconds -= sum(min(spent, means[rule]) for rule, spent in so_far)
        passed = now - (now if self.first is None else self.first)
        at_once = (self.worked + sum(spent for _, spent in so_far)) / max(passed, 1e-9)
        parts = [f"about {duration(seconds / max(at_once, 1))} left"] if seconds else []
        if unknown:
            jobs = "1 job" if unknown == 1 else f"{unknown} jobs"
            parts.append(f"{'without ' if parts else ''}{jobs} of a kind that has not run yet")
        return ", ".join(parts)


def duration(seconds: float) -> str:
    """`40 s`, `12 min` or `3.5 h`."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    if seconds < 5400:
        return f"{round(seconds / 60)} min"
    return f"{seconds / 3600:.1f} h"


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
