"""What the analysis reads is fetched from MLflow; every file's SHA-256 is checked."""

import shutil
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import pyarrow

from pcqc.evaluation.predictions import read_predictions, write_table
from pcqc.logged.updates import EVENTS, TIMES, read_updates
from pcqc_base.errors import UserError
from pcqc_base.system.files import read_json, sha256_file, write_json
from pcqc_base.system.manifest import STATE, checked
from pcqc_base.task import Task
from pcqc_study.mlflow_mirror.open_store import Store, answering, linked, masked, open_store
from pcqc_study.mlflow_mirror.values import is_number
from pcqc_study.study_file import Study

if TYPE_CHECKING:
    from mlflow.entities import Run

# What the analysis reads of a run; candidate groups and samples of training stay in MLflow.
NEEDED = (
    *(
        "*/manifest.json",
        "training/events.jsonl",
        "training/times.jsonl",
        "training/validation/*.parquet",
    ),
    *("evaluation/*.parquet", "evaluation/selection.json", "continuation/*"),
)


def run(task: Task, study: Study) -> None:
    """Gather what the analysis reads from MLflow's artifacts of every method of the study.

    Equal artifacts give equal bytes. Dialogues stay where the evaluation wrote them.

    Raises:
        UserError: a run is not mirrored; MLflow does not answer; an artifact is missing there or is
            not the file that was mirrored; a prediction file is damaged.
    """
    new = task.folder
    with answering(study, f"check the store, then run `pcqc collect {study.name}` again"):
        store, runs = open_store(study), []
        for method, mirrored in task.inputs.items():
            runs += _fetch(store, study, method, mirrored, new)
        _write_predictions(new, study, runs)
        _write_validations(new, runs)
        _write_updates(new, runs)
        for run in runs:
            if run["continuation"]:
                place = Path(run["method"]) / run["run"]
                target = new / "continuation" / place
                shutil.rmtree(target, ignore_errors=True)  # of a collection that was cut short
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.move(_fetched(new, run) / "continuation", target)
        write_json(new / "runs.json", runs)


def _fetched(new: Path, run: dict) -> Path:
    """Folder of the fetched artifacts of a run, given its entry in runs.json."""
    return new / STATE / "fetched" / run["method"] / run["run"]


def _fetch(store: Store, study: Study, method: str, mirrored: Path, new: Path) -> list[dict]:
    """Fetch the runs of a method; their entries in runs.json.

    Each file must have the SHA-256 that the method's record has for it.
    """
    record = read_json(checked(mirrored / "record.json"))
    # What is mirrored is not mirrored again while its record is there.
    again = f"remove {mirrored.parent} and run `pcqc mirror {study.name} {method}`"
    entries = []
    for run in study.methods[method].runs:
        folder = new / STATE / "fetched" / method / run
        _fetch_artifacts(store, f"run {run} of {method}", record[run], folder, again)
        entries.append(
            {
                "method": method,
                "run": run,
                "fingerprint": record[run]["fingerprint"],
                "training": _json_if_there(folder / "training" / "manifest.json"),
                "evaluation": read_json(folder / "evaluation" / "manifest.json"),
                "selection": read_json(folder / "evaluation" / "selection.json"),
                "continuation": _json_if_there(folder / "continuation" / "manifest.json"),
            }
        )
    return entries


def _fetch_artifacts(store: Store, run: str, mirrored: dict, folder: Path, again: str) -> None:
    """Fetch what the analysis reads of a run, whose entry in the method's record is `mirrored`."""
    same = f"tags.contents = '{mirrored['contents']}'"
    stored = store.client.search_runs([store.experiment.experiment_id], same)
    if not stored:
        raise UserError(f"MLflow has no {run}, or it was deleted there; {again}")
    for artifact, sha256 in mirrored["artifacts"].items():
        if not any(PurePosixPath(artifact).match(pattern) for pattern in NEEDED):
            continue
        if sha256_file(_download(store, stored[0], artifact, folder, again)) != sha256:
            raise UserError(
                f"artifact {artifact} of {run} has changed in MLflow; delete run "
                f"{stored[0].info.run_id} there, then {again}"
            )


def _json_if_there(path: Path) -> Any:
    return read_json(path) if path.exists() else None


def _download(store: Store, run: "Run", artifact: str, folder: Path, again: str) -> Path:
    """Fetch one artifact; its path below the folder is that of the artifact."""
    from mlflow.artifacts import download_artifacts
    from mlflow.exceptions import MlflowException

    path = folder / artifact
    path.parent.mkdir(parents=True, exist_ok=True)
    stored = Path(run.info.artifact_uri or "") / artifact
    if stored.is_absolute() and linked(stored, path):
        return path
    try:
        # By a run's id MLflow does the same, but hides why it fails.
        fetched = download_artifacts(
            artifact_uri=f"{run.info.artifact_uri}/{artifact}",
            dst_path=str(path.parent),
            tracking_uri=store.client.tracking_uri,
        )
    except (MlflowException, OSError) as problem:
        # A heading of several lines comes before the reason.
        reason = masked(str(problem).strip().splitlines()[-1])
        raise UserError(
            f"cannot fetch artifact {artifact} of run {run.info.run_id} into {folder}: {reason}; "
            f"check the store; if MLflow has lost the artifact, {again}"
        ) from problem
    return Path(fetched).replace(path)


def _write_predictions(new: Path, study: Study, runs: list[dict]) -> None:
    """Gather all predictions into one table.

    Runs, their updates and benchmarks come in the study's order. Predictions of `also_evaluate`
    have a table of their own.
    """
    selected: list[pyarrow.Table] = []
    further: list[pyarrow.Table] = []
    for run in runs:
        folder = _fetched(new, run) / "evaluation"
        updates = run["evaluation"].get("further_updates", {}).values()
        for evaluated in (run["evaluation"], *updates):
            for name in study.benchmarks:
                benchmark = evaluated["benchmarks"].get(name)
                if benchmark is None:
                    raise UserError(
                        f"run {run['run']} of {run['method']} was not evaluated on {name}; "
                        "evaluate it, mirror it, and collect again"
                    )
                path = folder / benchmark["predictions"]
                table = read_predictions(path)
                if len(table) != benchmark["cases"]:
                    raise UserError(
                        f"{path} has {len(table)} rows for {benchmark['cases']} cases; "
                        "evaluate again"
                    )
                (selected if evaluated is run["evaluation"] else further).append(table)
    write_table(new / "predictions.parquet", pyarrow.concat_tables(selected))
    if further:
        write_table(new / "further_updates.parquet", pyarrow.concat_tables(further))


def _write_validations(new: Path, runs: list[dict]) -> None:
    """Gather the predictions of all checkpoints on the development benchmark, by run and update."""
    tables = []
    for run in runs:
        folder = _fetched(new, run) / "training" / "validation"
        tables += [read_predictions(path) for path in sorted(folder.glob("*.parquet"))]
    if tables:
        write_table(new / "validations.parquet", pyarrow.concat_tables(tables))


def _write_updates(new: Path, runs: list[dict]) -> None:
    """Gather the numbers of all events: one row for each, one column for each number."""
    rows = []
    for run in runs:
        events, times = (
            _fetched(new, run) / "training" / f"{name}.jsonl" for name in (EVENTS, TIMES)
        )
        for event in read_updates(events, times) if events.exists() else ():
            rows.append({"method": run["method"], "run": run["run"], **event})
    keys = {"method": pyarrow.string(), "run": pyarrow.string(), "kind": pyarrow.string()}
    numbers = sorted(
        {name for row in rows for name, value in row.items() if is_number(value)} - {"update"}
    )
    schema = pyarrow.schema(
        [*keys.items(), ("update", pyarrow.int64()), *((n, pyarrow.float64()) for n in numbers)]
    )
    write_table(new / "updates.parquet", pyarrow.Table.from_pylist(rows, schema))
