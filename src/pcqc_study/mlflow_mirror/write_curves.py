"""Curves in MLflow while a run trains, from the rows that it writes: the run knows nothing of it.

The workflow starts `pcqc follow`, which does this at low priority beside the jobs and may end, fail
or hang at no cost to them. A run in training has an MLflow run named "training: ..."; the mirror of
the finished run takes its place. MLflow writes the points in threads of its own.
"""

import json
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pcqc.logged.updates import EVENTS, TIMES, joined
from pcqc_base.errors import UserError
from pcqc_study.fingerprint import Job
from pcqc_study.mlflow_mirror.finished import milliseconds
from pcqc_study.mlflow_mirror.open_store import Store, answering, log_points, open_store
from pcqc_study.mlflow_mirror.prepare import prepare
from pcqc_study.mlflow_mirror.values import of_event
from pcqc_study.study_file import Study

SECONDS = 5.0  # between two looks
AFTER = 30.0  # seconds: a shorter training is over before anybody looks


@dataclass
class Live:
    """What of a study's trainings is in MLflow."""

    study: Study
    store: Store | None = None  # opened when there is something to send
    runs: dict[Job, str] = field(default_factory=dict)  # ids
    sent: dict[Job, int] = field(default_factory=dict)  # events

    def send(self, jobs: list[Job]) -> None:
        """Hand MLflow the events that trainings have written since the last call.

        Raises:
            UserError: MLflow does not answer within the study's time-out.
        """
        first = 1000 * (time.time() - AFTER)
        begun = {job: rows for job in jobs if (rows := events(job)) and _time(rows[0]) < first}
        if not begun:
            return
        with answering(self.study, "the trainings go on without it"):
            if self.store is None:
                prepare(self.study)
                self.store = open_store(self.study)
            for job, rows in begun.items():
                self._send(self.store, job, rows)

    def _send(self, store: Store, job: Job, rows: list[dict[str, Any]]) -> None:
        if job not in self.runs:
            self.runs[job] = _run(store, self.study, job, _time(rows[0]))
        points = (
            (name, value, _time(row), row["update"])
            for row in rows[self.sent.get(job, 0) :]
            for name, value in of_event(row)
        )
        log_points(store.client, self.runs[job], points, synchronous=False)
        self.sent[job] = len(rows)

    def end(self) -> None:
        """Mark the runs whose mirror has not taken their place: their trainings have stopped."""
        with suppress(UserError), answering(self.study, ""):
            for job, run_id in self.runs.items() if self.store else ():
                if self.store.client.get_run(run_id).info.lifecycle_stage == "active":
                    state = "FINISHED" if job.manifest.exists() else "KILLED"
                    self.store.client.set_terminated(run_id, state)


def events(job: Job) -> list[dict[str, Any]]:
    """Rows of a training's updates and validations so far, with their times."""
    return list(joined(*(_whole_rows(job.path / f"{name}.jsonl") for name in (EVENTS, TIMES))))


def _whole_rows(path: Path) -> list[dict[str, Any]]:
    """Rows of a file that is being written: the last may be half there."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def _time(row: dict[str, Any]) -> int:
    return milliseconds(row["time"])


def _run(store: Store, study: Study, job: Job, start: int) -> str:
    """The id of a training's run in MLflow, created where it is missing."""
    experiment, contents = store.experiment.experiment_id, f"training {job.path.name}"
    method, letter = job.arguments
    same = f"tags.contents = '{contents}' and tags.method = '{method}' and tags.run = '{letter}'"
    if runs := store.client.search_runs([experiment], same):
        store.client.update_run(runs[0].info.run_id, status="RUNNING")
        return runs[0].info.run_id
    tags = {"study": study.name, "method": method, "run": letter, "stage": "training"}
    name = f"training: {study.method(method).title}, run {letter}"
    run = store.client.create_run(experiment, start, tags | {"contents": contents}, name)
    return run.info.run_id
