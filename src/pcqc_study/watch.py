"""`pcqc status STUDY --watch`: one screen for a study while it runs, from what its jobs write."""

import time
from contextlib import suppress
from typing import TYPE_CHECKING

from pcqc_study.mlflow_mirror.write_curves import SECONDS, events
from pcqc_study.status import JobState, job_states, runs, status, summary
from pcqc_study.study_file import Study

if TYPE_CHECKING:
    from rich.console import Group

BARS = "▁▂▃▄▅▆▇█"
WIDTH = 24  # characters of a sparkline


def watch(study: Study) -> None:
    """Show where a study stands until its workflow has ended or the user presses Ctrl-C."""
    from rich.live import Live

    shown = Live(screen(study), auto_refresh=False)
    with suppress(KeyboardInterrupt), shown:
        while runs(study):
            time.sleep(SECONDS)
            shown.update(screen(study), refresh=True)


def screen(study: Study) -> "Group":
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
    return Group(summary(status(study, states)), table, *map(Text, others))


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
