"""`pcqc status STUDY --watch`: one screen for a study while it runs, and curves in MLflow.

It reads what the jobs write and starts none of them, so it may end, fail or hang at no cost to
them.
"""

import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from pcqc.errors import UserError
from pcqc.jobs.status import JobState, job_states, runs, status, summary
from pcqc.study import Study
from pcqc.tracking.live import Live, events

if TYPE_CHECKING:
    from rich.console import Group

SECONDS = 5.0  # between two looks
BARS = "▁▂▃▄▅▆▇█"
WIDTH = 24  # characters of a sparkline


def watch(study: Study) -> None:
    """Show where a study stands until its workflow has ended or the user presses Ctrl-C."""
    from rich.live import Live as Screen

    problems: list[str] = []
    threading.Thread(target=_follow, args=(study, problems), daemon=True).start()
    shown = Screen(screen(study, problems), auto_refresh=False)
    with suppress(KeyboardInterrupt), shown:
        while runs(study):
            time.sleep(SECONDS)
            shown.update(screen(study, problems), refresh=True)


def screen(study: Study, problems: list[str]) -> "Group":
    """The study in one line, a row for each training, then other jobs that run or failed."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text  # brackets in it are brackets, not markup

    table = Table("training", "state", "accuracy in training", "last", "how far it is")
    states, others = job_states(study), []
    for state in states:
        if state.job.kind == "train":
            curve = accuracies(state)
            last = f"{100 * curve[-1]:.1f} %" if curve else ""
            name = " ".join(state.job.arguments)
            table.add_row(name, state.state, sparkline(curve), last, Text(state.reason))
        elif state.state in ("running", "failed"):
            others.append(f"{state.state:8} {state.job.name}: {state.reason}")
    return Group(summary(status(study, states)), table, *map(Text, [*others, *problems[-1:]]))


def accuracies(state: JobState) -> list[float]:
    """Accuracy of a training's own consultations, update by update."""
    rows = events(state.job)
    return [row["accuracy"] for row in rows if row["kind"] == "update" and "accuracy" in row]


def sparkline(curve: list[float]) -> str:
    """The last `WIDTH` points of a curve, between their least and their greatest value."""
    points = curve[-WIDTH:]
    low, high = min(points, default=0.0), max(points, default=0.0)
    steps = (len(BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(BARS[round((value - low) * steps)] for value in points)


def _follow(study: Study, problems: list[str]) -> None:
    """Send the curves of running trainings to MLflow; the screen shows what fails."""
    live = Live(study)
    while True:
        running = [state.job for state in job_states(study) if state.state == "running"]
        try:
            live.send([job for job in running if job.kind == "train"])
        except UserError as error:
            problems.append(str(error))
        time.sleep(SECONDS)
