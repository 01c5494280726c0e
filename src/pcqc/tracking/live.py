"""Curves in MLflow while a run trains, from the rows that it writes: the run knows nothing of it.

A run in training has an MLflow run named "training: ..."; the mirror of the finished run supersedes
it. MLflow writes the points in threads of its own.
"""

import json
from dataclasses import dataclass, field
from typing import Any

from pcqc.results.recipe import Job
from pcqc.study import Study
from pcqc.tracking.finished import milliseconds
from pcqc.tracking.mlflow_store import Store, answering, open_store
from pcqc.tracking.prepare import prepare
from pcqc.tracking.values import METRICS_PER_CALL, of_event, rounded


@dataclass
class Live:
    """What of a study's trainings is in MLflow; both by the name of the job."""

    study: Study
    store: Store | None = None  # opened when there is something to send
    runs: dict[str, str] = field(default_factory=dict)  # ids
    sent: dict[str, int] = field(default_factory=dict)  # events

    def send(self, jobs: list[Job]) -> None:
        """Hand MLflow the events that trainings have written since the last call.

        Raises:
            UserError: MLflow does not answer within the study's time-out.
        """
        begun = {job: rows for job in jobs if (rows := events(job))}
        if not begun:
            return
        with answering(self.study, "the trainings go on without it"):
            store = self.store = self.store or _open(self.study)
            for job, rows in begun.items():
                self._send(store, job, rows)

    def _send(self, store: Store, job: Job, rows: list[dict[str, Any]]) -> None:
        from mlflow.entities import Metric

        if job.name not in self.runs:
            self.runs[job.name] = _run(store, self.study, job, milliseconds(rows[0]["time"]))
        points = [
            Metric(name, rounded(value), milliseconds(row["time"]), row["update"])
            for row in rows[self.sent.get(job.name, 0) :]
            for name, value in of_event(row)
        ]
        for start in range(0, len(points), METRICS_PER_CALL):
            batch = points[start : start + METRICS_PER_CALL]
            store.client.log_batch(self.runs[job.name], metrics=batch, synchronous=False)
        self.sent[job.name] = len(rows)


def _open(study: Study) -> Store:
    prepare(study)
    return open_store(study)


def events(job: Job) -> list[dict[str, Any]]:
    """Whole rows of a training's events so far: the last may be half written."""
    path = job.path / "events.jsonl"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def _run(store: Store, study: Study, job: Job, start: int) -> str:
    """The id of a training's run in MLflow, created where it is missing."""
    experiment, contents = store.experiment.experiment_id, f"training {job.path.name}"
    method, letter = job.arguments
    same = f"tags.contents = '{contents}' and tags.method = '{method}' and tags.run = '{letter}'"
    if runs := store.client.search_runs([experiment], same):
        return runs[0].info.run_id
    tags = {"study": study.name, "method": method, "run": letter, "stage": "training"}
    name = f"training: {study.method(method).title}, run {letter}"
    run = store.client.create_run(experiment, start, tags | {"contents": contents}, name)
    return run.info.run_id
