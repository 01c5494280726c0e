"""The way back: what the analysis reads is fetched from MLflow, digest by digest."""

import shutil
from collections.abc import Iterator
from http.client import NOT_FOUND
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import pyarrow

from pcqc.config import Study
from pcqc.errors import UserError
from pcqc.files import read_json, read_jsonl, sha256_file, write_json
from pcqc.paths import Paths
from pcqc.predictions import read_predictions, write_table
from pcqc.tracking.finished import PLACES
from pcqc.tracking.store import Store, answering, open_store
from pcqc.tracking.values import is_number

if TYPE_CHECKING:
    from mlflow.store.artifact.artifact_repo import ArtifactRepository

# What the analysis reads of a run; candidate groups and samples of training stay in MLflow.
NEEDED = ("*/manifest.json", "training/events.jsonl", "evaluation/*", "continuation/*")

REMEDY = "check the store, then run the command again; nothing was changed"


def collect(study: Study) -> Path:
    """Write results/<study>/collected/ from MLflow's artifacts of every method of the study.

    Equal artifacts give equal bytes. The folder is replaced as a whole, once it is complete.

    Raises:
        UserError: a run of a method is not mirrored; MLflow does not answer; an artifact is missing
            there or is not the file that was mirrored; a prediction file is damaged.
    """
    target = Paths.of(study).collected
    new = target.with_name(".collected.new")
    with answering(study, REMEDY):
        shutil.rmtree(new, ignore_errors=True)
        store = open_store(study)
        methods = [
            name
            for name, method in study.methods.items()
            if method.runs and method.role != "ablation"
        ]
        runs = [entry for method in methods for entry in _runs(store, study, method, new)]
        _write_predictions(new, study, runs)
        _write_updates(new, runs)
        _keep_continuations(new, runs)
        write_json(new / "runs.json", runs)
        shutil.rmtree(new / "fetched")
        shutil.rmtree(target, ignore_errors=True)
        new.rename(target)
    return target


def _fetch(store: Store, study: Study, method: str, folder: Path) -> dict:
    """Download what is needed of a method's runs; the method's tracking file.

    The runs are those of tracking/<method>.json. Each file must have the digest written there and
    the digest in the manifest of its run, which is one of the artifacts.
    """
    path = Paths.of(study).tracking(method)
    again = f"`pcqc track mirror {study.name} {method}`"
    if not path.exists():
        raise UserError(f"{method} is not in MLflow yet ({path} is missing); run {again} first")
    tracking = read_json(path)
    for run, entry in tracking["runs"].items():
        remedy = f"delete run {entry['run_id']} in MLflow if it is there, then run {again}"
        artifacts = _repository(store, entry["run_id"], remedy)
        for artifact, digest in entry["artifacts"].items():
            if _is_needed(artifact):
                where = f"artifact {artifact} of run {entry['run_id']}"
                _download(artifacts, artifact, folder / run, digest, where, remedy)
        for place in PLACES:
            _check_manifest(folder / run / place, place, entry["artifacts"], remedy)
    return tracking


def _repository(store: Store, run_id: str, remedy: str) -> "ArtifactRepository":
    """The artifacts of a run that the interface shows."""
    from mlflow.exceptions import MlflowException
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

    try:
        info = store.client.get_run(run_id).info
    except MlflowException as problem:
        if problem.error_code != "RESOURCE_DOES_NOT_EXIST":
            raise
        raise UserError(f"MLflow has no run {run_id}; {remedy}") from problem
    if info.lifecycle_stage != "active":
        raise UserError(f"run {run_id} was deleted in MLflow; {remedy}")
    return get_artifact_repository(info.artifact_uri, tracking_uri=store.client.tracking_uri)


def _download(
    artifacts: "ArtifactRepository",
    artifact: str,
    folder: Path,
    digest: str,
    where: str,
    remedy: str,
) -> None:
    from mlflow.exceptions import MlflowException
    from requests import HTTPError

    path = folder / artifact
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        # `download_artifacts` keeps but the text of an error: a full disk is not a missing file.
        artifacts._download_file(artifact, str(path))
    except (MlflowException, HTTPError) as problem:
        of_server = isinstance(problem, HTTPError)
        status = problem.response.status_code if of_server else problem.get_http_status_code()
        if status != NOT_FOUND:
            raise
        raise UserError(f"MLflow has no {where}; {remedy}") from problem
    if sha256_file(path) != digest:
        raise UserError(f"{where} has changed in MLflow; {remedy}")


def _check_manifest(folder: Path, place: str, artifacts: dict[str, str], remedy: str) -> None:
    """Compare the digests in a fetched manifest with those of the fetched artifacts."""
    manifest = folder / "manifest.json"
    listed = read_json(manifest)["files"] if manifest.exists() else {}
    for name, digest in listed.items():
        if artifacts.get(f"{place}/{name}", digest) != digest:
            raise UserError(f"{place}/{name} is not the file of its run's manifest; {remedy}")


def _runs(store: Store, study: Study, method: str, new: Path) -> list[dict]:
    """Fetch a method's runs below `new`/fetched; their entries in runs.json."""
    folder = new / "fetched" / method
    tracking = _fetch(store, study, method, folder)
    found = []
    for run in study.method(method).runs:
        if run not in tracking["runs"]:
            raise UserError(
                f"run {run} of {method} is not in MLflow yet; "
                f"run `pcqc track mirror {study.name} {method}` first"
            )
        found.append(
            {
                "method": method,
                "run": run,
                "run_id": tracking["runs"][run]["run_id"],
                "experiment_id": tracking["experiment_id"],
                "training": _json_if_there(folder / run / "training" / "manifest.json"),
                "evaluation": read_json(folder / run / "evaluation" / "manifest.json"),
                "selection": _json_if_there(folder / run / "evaluation" / "selection.json"),
                "continuation": _json_if_there(folder / run / "continuation" / "manifest.json"),
            }
        )
    return found


def _is_needed(artifact: str) -> bool:
    return any(PurePosixPath(artifact).match(pattern) for pattern in NEEDED)


def _json_if_there(path: Path) -> Any:
    return read_json(path) if path.exists() else None


def _evaluations(new: Path, study: Study, runs: list[dict]) -> Iterator[tuple[Path, dict, dict]]:
    """Yield (folder, run, benchmark's entry) over runs and benchmarks, in the study's order."""
    for run in runs:
        folder = new / "fetched" / run["method"] / run["run"] / "evaluation"
        found = run["evaluation"]["benchmarks"]
        for name in study.benchmarks:
            if name not in found:
                raise UserError(
                    f"run {run['run']} of {run['method']} was not evaluated on {name}; "
                    "evaluate it, mirror it, and collect again"
                )
            yield folder, run, found[name]


def _write_predictions(new: Path, study: Study, runs: list[dict]) -> None:
    """Gather all predictions into one table and all dialogues into one folder."""
    tables = []
    for folder, run, benchmark in _evaluations(new, study, runs):
        path = folder / benchmark["predictions"]
        table = read_predictions(path)
        if len(table) != benchmark["cases"]:
            raise UserError(
                f"{path} has {len(table)} rows for {benchmark['cases']} cases; evaluate again"
            )
        tables.append(table)
        dialogues = new / "dialogues" / run["method"] / run["run"] / benchmark["dialogues"]
        dialogues.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(folder / benchmark["dialogues"], dialogues)
    write_table(new / "predictions.parquet", pyarrow.concat_tables(tables))


def _write_updates(new: Path, runs: list[dict]) -> None:
    """Gather the numbers of all events: one row for each, one column for each number."""
    rows = []
    for run in runs:
        path = new / "fetched" / run["method"] / run["run"] / "training" / "events.jsonl"
        for _, event in read_jsonl(path) if path.exists() else ():
            rows.append({"method": run["method"], "run": run["run"], **event})
    keys = {"method": pyarrow.string(), "run": pyarrow.string(), "kind": pyarrow.string()}
    numbers = sorted(
        {name for row in rows for name, value in row.items() if is_number(value)} - {"update"}
    )
    schema = pyarrow.schema(
        [*keys.items(), ("update", pyarrow.int64()), *((n, pyarrow.float64()) for n in numbers)]
    )
    write_table(new / "updates.parquet", pyarrow.Table.from_pylist(rows, schema))


def _keep_continuations(new: Path, runs: list[dict]) -> None:
    """Keep the files of the continuation study as they were mirrored."""
    for run in runs:
        if run["continuation"]:
            place = Path(run["method"]) / run["run"]
            (new / "continuation" / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.move(new / "fetched" / place / "continuation", new / "continuation" / place)
