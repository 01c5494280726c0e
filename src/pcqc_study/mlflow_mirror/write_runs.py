"""The mirror of a method's finished runs in MLflow.

A run is in MLflow once: it is recognised by its tag `contents`. Writing a run twice changes
nothing, and `FINISHED` is set last; so the next mirror completes a run that a kill cut short.
"""

from collections import defaultdict
from collections.abc import Iterable
from itertools import starmap
from pathlib import Path
from typing import TYPE_CHECKING

from pcqc_base.system.files import write_json
from pcqc_base.task import Task
from pcqc_study.fingerprint import Fingerprint
from pcqc_study.mlflow_mirror import notes, page, values, write_models
from pcqc_study.mlflow_mirror.finished import FinishedRun
from pcqc_study.mlflow_mirror.open_store import (
    Store,
    answering,
    artifact_paths,
    log_file,
    log_points,
    open_store,
)
from pcqc_study.mlflow_mirror.prepare import prepare
from pcqc_study.study_file import Study

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

PARENT = "mlflow.parentRunId"
SUPERSEDED = "superseded_by"
CURRENT = "current"
TRAINING = "training"  # stage of a run that has not ended: see `write_curves`
PARAMETERS_PER_CALL = 100  # MLflow's limits
RUNS_PER_CALL = 50_000


def run(task: Task, study: Study) -> None:
    """Mirror a method's runs, and write what MLflow holds of each: `record.json`.

    Raises:
        UserError: a run is not finished or differs from its manifest, or MLflow fails or does not
            answer within the study's time-out. Calling again completes what was begun.
    """
    (method,) = task.arguments
    folders: dict[str, dict[str, Path]] = defaultdict(dict)  # letter -> kind of job -> result
    for name, folder in task.inputs.items():
        kind, letter = name.split()
        folders[letter][kind] = folder
    finished = [
        FinishedRun(study.results, method, letter, of_run, study)
        for letter, of_run in folders.items()
    ]
    for run in finished:
        _ = run.files  # altered ones are refused before anything is written
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
        run_ids = {run.run: _mirror_run(store, run, parent, stored) for run in finished}
        _adopt(store, parent, stored)
        note = notes.of_method(study, method, store.experiment.experiment_id, run_ids)
        if store.client.get_run(parent).data.tags.get(notes.NOTE) != note:
            store.client.set_tag(parent, notes.NOTE, note)
    # No id of MLflow's: a store that is lost and written again has others.
    record = {
        run.run: {
            "fingerprint": Fingerprint.of(run.evaluation).short,
            "contents": run.contents,
            "artifacts": run.sha256,
        }
        for run in finished
    }
    write_json(task.folder / "record.json", record)


def _write_parent(
    store: Store, study: Study, method: str, stored: list["Run"], finished: list[FinishedRun]
) -> str:
    """The id of the method's parent run, with its settings and the means over its runs.

    It lasts from the start of the first run to the last end. A parent of other runs is replaced:
    MLflow would keep the points of both.
    """
    client = store.client
    tags = values.tags_of_method(finished)
    parents = [run for run in stored if run.data.tags.get("stage") == "method"]
    same = [run for run in parents if run.data.tags.get("contents") == tags["contents"]]
    start, end = min(run.started for run in finished), max(run.ended for run in finished)
    if same:
        parent = same[0]
    else:
        title = study.method(method).title
        parent = client.create_run(store.experiment.experiment_id, start, tags, title)
    run_id = parent.info.run_id
    if parent.info.status != "FINISHED":
        _log(client, parent, values.parameters(study, method), values.means(finished))
        client.set_terminated(run_id, "FINISHED", end)
    return run_id


def _adopt(store: Store, parent: str, stored: list["Run"]) -> None:
    """Put all runs of a method below its parent, and delete the parents that it replaces."""
    for run in stored:
        stage = run.data.tags.get("stage")
        if stage == TRAINING:
            continue
        if stage != "method":
            if run.data.tags.get(PARENT) != parent:
                store.client.set_tag(run.info.run_id, PARENT, parent)
        elif run.info.run_id != parent:
            store.client.delete_run(run.info.run_id)


def _mirror_run(store: Store, run: FinishedRun, parent: str, stored: list["Run"]) -> str:
    """Find, complete or create the MLflow run of a finished run; its id."""
    client = store.client
    of_letter = [other for other in stored if other.data.tags.get("run") == run.run]
    same = [other for other in of_letter if other.data.tags["contents"] == run.contents]
    if same:
        target = same[0]
    else:
        tags = values.tags(run) | {PARENT: parent}
        experiment_id = store.experiment.experiment_id
        target = client.create_run(experiment_id, run.started, tags, run.title)
    run_id = target.info.run_id
    is_finished = target.info.status == "FINISHED"
    if not is_finished or not set(run.files) <= set(artifact_paths(client, run_id)):
        _fill(store, run, target)
    write_models.register(store, run, run_id)
    _supersede(store, run, target, of_letter)
    return run_id


def _fill(store: Store, run: FinishedRun, target: "Run") -> None:
    """Write everything of a run, whether or not some of it is there, and mark it as whole."""
    client, run_id = store.client, target.info.run_id
    _log(client, target, values.parameters(run.study, run.method), values.metrics(run))
    for artifact, path in run.files.items():
        log_file(store, target, path, artifact)
    client.log_text(run_id, page.of_run(run), page.NAME)
    client.set_tag(run_id, notes.NOTE, notes.of_run(run, target.info))
    client.set_terminated(run_id, "FINISHED", target.info.start_time + run.duration)


def _log(
    client: "MlflowClient",
    target: "Run",
    parameters: dict[str, str],
    points: Iterable[tuple[str, float, int, int]],
) -> None:
    """Write parameters and the points of `values.metrics`."""
    from mlflow.entities import Param

    run_id, begun = target.info.run_id, target.info.start_time
    entries = list(starmap(Param, parameters.items()))
    for start in range(0, len(entries), PARAMETERS_PER_CALL):
        client.log_batch(run_id, params=entries[start : start + PARAMETERS_PER_CALL])
    # Times follow from the run alone, so that a point that is written twice is one point.
    timed = ((name, value, begun + elapsed, update) for name, value, update, elapsed in points)
    log_points(client, run_id, timed)


def _supersede(store: Store, run: FinishedRun, target: "Run", of_letter: list["Run"]) -> None:
    """Mark the other runs of the same letter as superseded by this one."""
    client, run_id = store.client, target.info.run_id
    if SUPERSEDED in target.data.tags:
        client.update_run(run_id, name=run.title)
        client.delete_tag(run_id, SUPERSEDED)
    if target.data.tags.get(CURRENT) != "yes":
        client.set_tag(run_id, CURRENT, "yes")
    for other in of_letter:
        old = other.info.run_id
        if other.data.tags["stage"] == TRAINING:  # what it showed is in this one
            client.delete_run(old)
        elif old != run_id and other.data.tags.get(SUPERSEDED) != run_id:
            client.update_run(old, name=f"superseded: {run.title}")
            client.set_tag(old, CURRENT, "no")
            client.set_tag(old, SUPERSEDED, run_id)
