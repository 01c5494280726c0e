"""The mirror of a method's finished runs in MLflow.

A run is in MLflow once: it is recognised by its tag `contents`. Writing a run twice changes
nothing, and `FINISHED` is set last; so the next mirror completes a run that a kill cut short.
"""

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from pcqc.results.tasks import Task
from pcqc.study import Study
from pcqc.system.files import write_json
from pcqc.tracking import checkpoints, notes, traces, values
from pcqc.tracking.finished import FinishedRun, read_finished
from pcqc.tracking.mlflow_store import Store, answering, artifact_paths, open_store
from pcqc.tracking.prepare import prepare

if TYPE_CHECKING:
    from mlflow.entities import Run

PARENT = "mlflow.parentRunId"
SUPERSEDED = "superseded_by"
METRICS_PER_CALL = 1000  # MLflow's limits
PARAMETERS_PER_CALL = 100
RUNS_PER_CALL = 50_000


def run(task: Task, study: Study) -> None:
    """Mirror a method's runs, and write which MLflow run holds what: `record.json`.

    Raises:
        UserError: a run is not finished or differs from its manifest, or MLflow fails or does not
            answer within the study's time-out. Calling again completes what was begun.
    """
    (method,) = task.arguments
    letters = [name.split()[1] for name in task.inputs if name.startswith("evaluate ")]
    finished = [read_finished(study, method, letter) for letter in letters]
    remedy = f"the run's files are complete, rerun `pcqc mirror {study.name} {method}`"
    prepare(study)
    with answering(study, remedy):
        store = open_store(study)
        stored = store.client.search_runs(
            [store.experiment.experiment_id],
            f"tags.method = '{method}'",
            max_results=RUNS_PER_CALL,
        )
        parent = _write_parent(store, study, method, stored, finished)
        mirrored = {run.run: _mirror_run(store, run, parent, stored) for run in finished}
    record = {"experiment_id": store.experiment.experiment_id, "runs": mirrored}
    write_json(task.folder / "record.json", record)


def _write_parent(
    store: Store, study: Study, method: str, stored: list["Run"], finished: list[FinishedRun]
) -> str:
    """The id of the method's parent run, created where missing; its description is updated.

    It lasts from the start of the first run that was mirrored to the last end.
    """
    client, note = store.client, notes.of_method(study, method)
    parent = next((run for run in stored if run.data.tags.get("stage") == "method"), None)
    if parent is None:
        start = min(run.started for run in finished)
        tags = {"study": study.name, "method": method, "stage": "method", notes.NOTE: note}
        title = study.method(method).title
        parent = client.create_run(store.experiment.experiment_id, start, tags, title)
    run_id = parent.info.run_id
    if parent.data.tags.get(notes.NOTE) != note:
        client.set_tag(run_id, notes.NOTE, note)
    end = max([parent.info.end_time or 0, *(run.ended for run in finished)])
    if parent.info.end_time != end:
        client.set_terminated(run_id, "FINISHED", end)
    return run_id


def _mirror_run(store: Store, run: FinishedRun, parent: str, stored: list["Run"]) -> dict:
    """Find, complete or create the MLflow run of a finished run; its entry in the record."""
    client = store.client
    of_letter = [other for other in stored if other.data.tags.get("run") == run.run]
    same = [other for other in of_letter if other.data.tags["contents"] == run.contents]
    if same:
        target = same[0]
    else:
        tags = values.tags(run) | {PARENT: parent, notes.NOTE: notes.of_run(run)}
        experiment_id = store.experiment.experiment_id
        target = client.create_run(experiment_id, run.started, tags, run.title)
    run_id = target.info.run_id
    is_finished = target.info.status == "FINISHED"
    if not is_finished or not set(run.files) <= set(artifact_paths(client, run_id)):
        _fill(store, run, target)
    checkpoints.register(store, run, run_id)
    _supersede(store, run, target, of_letter)
    return {"run_id": run_id, "artifacts": run.sha256}


def _fill(store: Store, run: FinishedRun, target: "Run") -> None:
    """Write everything of a run, whether or not some of it is there, and mark it as whole."""
    from mlflow.entities import Metric, Param

    client, run_id, start = store.client, target.info.run_id, target.info.start_time
    parameters = [Param(name, value) for name, value in values.parameters(run).items()]
    for batch in _batches(parameters, PARAMETERS_PER_CALL):
        client.log_batch(run_id, params=batch)
    # Their times are fixed: MLflow keeps one of two equal points.
    points = [
        Metric(name, value, start + elapsed, update)
        for name, value, update, elapsed in values.metrics(run)
    ]
    for batch in _batches(points, METRICS_PER_CALL):
        client.log_batch(run_id, metrics=batch)
    for artifact, path in run.files.items():
        client.log_artifact(run_id, str(path), str(PurePosixPath(artifact).parent))
    traces.write(run, run_id, client, store.experiment.experiment_id)
    client.set_terminated(run_id, "FINISHED", start + run.duration)


def _batches(items: list, size: int) -> Iterator[list]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


def _supersede(store: Store, run: FinishedRun, target: "Run", of_letter: list["Run"]) -> None:
    """Mark the other runs of the same letter as superseded by this one."""
    client, run_id = store.client, target.info.run_id
    if SUPERSEDED in target.data.tags:
        client.update_run(run_id, name=run.title)
        client.delete_tag(run_id, SUPERSEDED)
    for other in of_letter:
        old = other.info.run_id
        if old != run_id and other.data.tags.get(SUPERSEDED) != run_id:
            client.update_run(old, name=f"superseded: {run.title}")
            if other.info.status == "RUNNING":
                client.set_terminated(old, "KILLED")
            client.set_tag(old, SUPERSEDED, run_id)
