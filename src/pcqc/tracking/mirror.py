"""The mirror of a method's finished runs in MLflow.

A mirrored run is found again by its tags and the digest of its contents, and writing it twice
changes nothing. So the next mirror completes one that was killed; `FINISHED` is set last, on whole
runs only.
"""

import hashlib
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from pcqc.errors import UserError
from pcqc.study import Study
from pcqc.study.job_outputs import job_output
from pcqc.study.paths import Paths
from pcqc.system.files import hold, read_json, read_jsonl, write_atomic, write_json
from pcqc.tracking import checkpoints, notes, reading, search_tree, traces, values
from pcqc.tracking.finished import FinishedRun, finished_runs, read_finished, record_of
from pcqc.tracking.store import Store, answering, open_store, sizes

if TYPE_CHECKING:
    from mlflow.entities import Run

PARENT = "mlflow.parentRunId"
SUPERSEDED, BECAUSE = "superseded_by", "superseded_because"
METRICS_PER_CALL = 1000  # MLflow's limits
PARAMETERS_PER_CALL = 100


def mirror(study: Study, method: str, runs: Sequence[str] | None = None) -> Path:
    """Mirror a method's finished runs; the path of the written tracking/<method>.json.

    Args:
        study: the study; its store must be prepared.
        method: a method of it.
        runs: letters of runs; all evaluated ones where not given.

    Raises:
        UserError: a run is not finished or differs from its manifest, or MLflow fails or does not
            answer within the study's time-out. Calling again completes what was begun.
    """
    study.method(method)
    finished = [read_finished(study, method, run) for run in runs or finished_runs(study, method)]
    if not finished:
        raise UserError(
            f"{study.results} holds no evaluated run of {method} to mirror; evaluate it first"
        )
    written = {run.run: _pages(run) for run in finished}
    target = Paths.of(study).tracking(method)
    remedy = (
        "the run's files are complete, "
        f"rerun `pcqc track mirror {study.name} {method}` to mirror them"
    )
    lock, patience = target.with_name(f".{method}.lock"), study.tracking.timeout_seconds
    with answering(study, remedy), hold(lock, f"a mirror of {method}", patience):
        store = open_store(study)
        known = _known_runs(store, method)
        parent = _parent(store, study, method, known, finished)
        mirrored = {
            run.run: _mirror_run(store, run, written[run.run], parent, known) for run in finished
        }
        earlier = record_of(study, method)["runs"] if runs and target.exists() else {}
        experiment = {"experiment": study.name, "experiment_id": store.experiment.experiment_id}
        pages = [path for run in finished for path in _write_pages(run, written[run.run])]
        write_json(target, {**experiment, "parent_run_id": parent, "runs": {**earlier, **mirrored}})
        job_output(study, "mirror", method).vouch([target, *pages])
    return target


def _known_runs(store: Store, method: str) -> list["Run"]:
    """All runs of the method that MLflow has, the parent and superseded ones among them."""
    found: list[Run] = []
    token = None
    while True:
        page = store.client.search_runs(
            [store.experiment.experiment_id], f"tags.method = '{method}'", page_token=token
        )
        found += page
        token = page.token
        if not token:
            return found


def _parent(
    store: Store, study: Study, method: str, known: list["Run"], finished: list[FinishedRun]
) -> str:
    """The id of the method's parent run, created where missing; its note and means up to date.

    It lasts from the start of its first run, as far as that was mirrored first, to the last end.
    """
    paths, runs = Paths.of(study), finished_runs(study, method)
    evaluations = [read_json(paths.evaluation(method, run) / "manifest.json") for run in runs]
    files = [paths.run(method, run) / "events.jsonl" for run in runs]
    trainings = [[row for _, row in read_jsonl(path)] for path in files if path.exists()]
    note = notes.of_method(study, method, evaluations)
    parent = next((run for run in known if run.data.tags.get("stage") == "method"), None)
    if parent is None:
        start = min(run.started for run in finished)
        tags = {"study": study.name, "method": method, "stage": "method", notes.NOTE: note}
        parent = store.client.create_run(
            store.experiment.experiment_id, start, tags, study.method(method).title
        )
    run_id = parent.info.run_id
    if parent.data.tags.get(notes.NOTE) != note:
        store.client.set_tag(run_id, notes.NOTE, note)
    means = values.means(study, evaluations) | values.learned(trainings)
    _log_means(store, parent, means)
    end = max([parent.info.end_time or 0, *(run.ended for run in finished)])
    if parent.info.end_time != end:
        store.client.set_terminated(run_id, "FINISHED", end)
    return run_id


def _log_means(store: Store, parent: "Run", means: dict[str, float]) -> None:
    """Write the means that are new or have changed; the interface shows the latest."""
    from mlflow.entities import Metric

    now = round(1000 * time.time())
    changed = {k: value for k, value in means.items() if parent.data.metrics.get(k) != value}
    points = [Metric(name, value, now, 0) for name, value in changed.items()]
    if points:
        store.client.log_batch(parent.info.run_id, metrics=points)


def _mirror_run(
    store: Store, run: FinishedRun, written: dict[str, str], parent: str, known: list["Run"]
) -> dict:
    """Find, complete or create the MLflow run of a finished run; its entry in the tracking file."""
    mine = [other for other in known if other.data.tags.get("run") == run.run]
    same = [other for other in mine if other.data.tags["contents"] == run.contents]
    same.sort(key=lambda other: other.info.status != "FINISHED")
    target = same[0] if same else _create(store, run, parent)
    if target.info.status != "FINISHED" or not _is_whole(store, run, target, written):
        _fill(store, run, target, written)
    checkpoints.register(store, run, target.info.run_id)
    _supersede(store, run, target, mine)
    digests = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in written.items()}
    return {"run_id": target.info.run_id, "artifacts": {**run.digests, **digests}}


def _is_whole(store: Store, run: FinishedRun, target: "Run", written: dict[str, str]) -> bool:
    """Whether MLflow still has every artifact of a run, at its full length."""
    expected = {name: path.stat().st_size for name, path in run.files.items()}
    expected |= {name: len(text.encode()) for name, text in written.items()}
    return sizes(store.client, target.info.run_id) == expected


def _pages(run: FinishedRun) -> dict[str, str]:
    """Artifacts that the mirror makes itself."""
    pages = {}
    if run.groups:
        pages["questions.html"] = reading.page(run.name, run.groups)
    if run.trees:
        pages["search_tree.svg"] = search_tree.draw(search_tree.chosen(run.trees), run.name)
    settings = json.dumps(run.settings, indent=1, sort_keys=True, ensure_ascii=False)
    return {"config.json": settings, **{f"reading/{name}": text for name, text in pages.items()}}


def _write_pages(run: FinishedRun, written: dict[str, str]) -> list[Path]:
    """The pages as files below the study's `reading/`; their paths."""
    folder, paths = Paths.of(run.study).reading(run.method, run.run), []
    for name, text in written.items():
        if PurePosixPath(name).parent.name == "reading":
            paths.append(folder / PurePosixPath(name).name)
            write_atomic(paths[-1], text)
    return paths


def _create(store: Store, run: FinishedRun, parent: str) -> "Run":
    tags = values.tags(run) | {
        PARENT: parent,
        notes.NOTE: notes.of_run(run),
        "mirrored": time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()),
    }
    return store.client.create_run(store.experiment.experiment_id, run.started, tags, run.name)


def _fill(store: Store, run: FinishedRun, target: "Run", written: dict[str, str]) -> None:
    """Write everything of a run, whether or not some of it is there, and mark it as whole."""
    client, run_id, start = store.client, target.info.run_id, target.info.start_time
    _log_numbers(store, run, run_id, start)
    _log_inputs(store, run, run_id)
    for name, path in run.files.items():
        folder = str(PurePosixPath(name).parent)
        client.log_artifact(run_id, str(path), folder)
    for name, text in written.items():
        client.log_text(run_id, text, name)
    traces.write(run, run_id, client, store.experiment.experiment_id)
    client.set_terminated(run_id, "FINISHED", start + run.duration)


def _log_numbers(store: Store, run: FinishedRun, run_id: str, start: int) -> None:
    """Parameters, and metrics at fixed times: MLflow keeps one of two equal points."""
    from mlflow.entities import Metric, Param

    parameters = [Param(name, value) for name, value in values.parameters(run).items()]
    for batch in _batches(parameters, PARAMETERS_PER_CALL):
        store.client.log_batch(run_id, params=batch)
    points = [
        Metric(name, value, start + elapsed, update)
        for name, value, update, elapsed in values.metrics(run)
    ]
    for batch in _batches(points, METRICS_PER_CALL):
        store.client.log_batch(run_id, metrics=batch)


def _batches(items: list, size: int) -> Iterator[list]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


def _log_inputs(store: Store, run: FinishedRun, run_id: str) -> None:
    """Name the data sets of a run.

    MLflow keeps a data set once for all runs of an experiment, and of several mirrors that name a
    new one at the same moment all but one fail. They find it there when they try again.
    """
    from mlflow.exceptions import MlflowException

    for attempt in range(3):
        try:
            return store.client.log_inputs(run_id, _data_sets(run))
        except MlflowException:
            if attempt == 2:
                raise


def _data_sets(run: FinishedRun) -> list:
    """The run's inputs, each under its role in the study."""
    from mlflow.entities import Dataset, DatasetInput, InputTag

    return [
        DatasetInput(
            Dataset(
                name=name,
                digest=entry["sha256"][:12],  # the tag data_digest.<name> has all of it
                source_type="local",
                source=json.dumps({"uri": entry["path"]}),
                schema=values.SCHEMA,
                profile=json.dumps({"num_rows": entry["rows"]}),
            ),
            [InputTag("mlflow.data.context", values.role(run, name))],
        )
        for name, entry in run.data.items()
    ]


def _supersede(store: Store, run: FinishedRun, target: "Run", mine: list["Run"]) -> None:
    """Say on runs of the same letter with other contents which run replaced them, and why."""
    client, run_id = store.client, target.info.run_id
    if SUPERSEDED in target.data.tags:
        client.update_run(run_id, name=run.name)
        for tag in (SUPERSEDED, BECAUSE):
            client.delete_tag(run_id, tag)
    for other in mine:
        old = other.info.run_id
        if old == run_id or other.data.tags.get(SUPERSEDED) == run_id:
            continue
        client.set_tag(old, BECAUSE, values.difference(run, other.data.params, other.data.tags))
        client.update_run(old, name=f"{run.name} (superseded)")
        if other.info.status == "RUNNING":
            client.set_terminated(old, "KILLED")
        client.set_tag(old, SUPERSEDED, run_id)
