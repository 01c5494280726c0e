"""What the analysis reads is fetched from MLflow; every file's digest is checked."""

import shutil
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import pyarrow

from pcqc.errors import UserError
from pcqc.study import Study
from pcqc.study.job_outputs import job_output
from pcqc.study.paths import Paths
from pcqc.study.predictions import read_predictions, write_table
from pcqc.system.files import hold, read_json, read_jsonl, sha256_file, write_json
from pcqc.tracking.earlier import START, check_start, collected_runs, join, key
from pcqc.tracking.finished import PLACES, record_of
from pcqc.tracking.store import Store, answering, find_run, masked, open_store, sizes
from pcqc.tracking.values import is_number

if TYPE_CHECKING:
    from mlflow.entities import Run

# What the analysis reads of a run; candidate groups and samples of training stay in MLflow.
NEEDED = (
    *("*/manifest.json", "training/events.jsonl", "training/validation/*.parquet"),
    *("evaluation/*", "continuation/*"),
)

REMEDY = "check the store, then run the command again; nothing was changed"


def collect(study: Study, add: bool = False) -> Path:
    """Write results/<study>/collected/ from MLflow's artifacts of every method of the study.

    Equal artifacts give equal bytes. The folder is replaced as a whole, once it is complete.

    Args:
        study: the study.
        add: keep the runs that are collected already, and add those that are not.

    Raises:
        UserError: a run is not mirrored; MLflow does not answer; an artifact is missing there or is
            not the file that was mirrored; a prediction file is damaged.
    """
    target = Paths.of(study).collected
    new, old = target.with_name(".collected.new"), target.with_name(".collected.old")
    lock, patience = target.with_name(".collected.lock"), study.tracking.timeout_seconds
    with answering(study, REMEDY), hold(lock, f"a collection of {study.name}", patience):
        # What a killed collection left; the lock keeps a living one's.
        shutil.rmtree(new, ignore_errors=True)
        earlier = collected_runs(study) if add else []
        store = open_store(study)
        methods = [
            name for name, method in study.methods.items() if method.runs and not method.on_demand
        ]
        # Shared SFT of both says whether their runs start from one actor.
        had = {key(run) for run in earlier if run["method"] != START}
        runs = [entry for method in methods for entry in _runs(store, study, method, new, had)]
        if add:
            check_start(study, earlier, runs)
        _write_predictions(new, study, runs)
        _write_validations(new, runs)
        _write_updates(new, runs)
        _keep_continuations(new, runs)
        if add:
            runs = join(study, earlier, runs, new)
        write_json(new / "runs.json", runs)
        shutil.rmtree(new / "fetched")
        shutil.rmtree(old, ignore_errors=True)
        if target.exists():
            target.rename(old)
        new.rename(target)
        shutil.rmtree(old, ignore_errors=True)
        files = (path for path in sorted(target.rglob("*")) if path.is_file())
        job_output(study, "collect").vouch(files)
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
    tracking = record_of(study, method)
    for run, entry in tracking["runs"].items():
        run_id, artifacts = entry["run_id"], entry["artifacts"]
        if (found := find_run(store.client, run_id)) is None:
            raise UserError(f"MLflow has no run {run_id}, or it was deleted there; run {again}")
        present = sizes(store.client, run_id)
        remedy = f"delete run {run_id} in MLflow, then run {again}"
        for artifact, digest in artifacts.items():
            if artifact not in present:
                raise UserError(f"MLflow has no artifact {artifact} of run {run_id}; run {again}")
            if not _is_needed(artifact):
                continue
            path = _download(store, found, artifact, folder / run)
            if sha256_file(path) != digest:
                raise UserError(
                    f"artifact {artifact} of run {run_id} has changed in MLflow; {remedy}"
                )
        for place in PLACES:
            _check_manifest(folder / run / place, place, artifacts, remedy)
    return tracking


def _download(store: Store, run: "Run", artifact: str, folder: Path) -> Path:
    """Fetch one artifact; its path below the folder is that of the artifact."""
    from mlflow.artifacts import download_artifacts
    from mlflow.exceptions import MlflowException

    path = folder / artifact
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        # By a run's id MLflow does the same, but hides why it fails.
        fetched = download_artifacts(
            artifact_uri=f"{run.info.artifact_uri}/{artifact}",
            dst_path=str(path.parent),
            tracking_uri=store.client.tracking_uri,
        )
    except (MlflowException, OSError) as problem:
        # A heading of several lines comes before what went wrong.
        reason = masked(str(problem).strip().splitlines()[-1])
        raise UserError(
            f"cannot fetch artifact {artifact} of run {run.info.run_id} into {folder}: {reason}; "
            f"{REMEDY}"
        ) from problem
    return Path(fetched).replace(path)


def _check_manifest(folder: Path, place: str, artifacts: dict[str, str], remedy: str) -> None:
    """Compare the digests in a fetched manifest with those of the fetched artifacts."""
    manifest = folder / "manifest.json"
    listed = read_json(manifest)["files"] if manifest.exists() else {}
    for name, digest in listed.items():
        if artifacts.get(f"{place}/{name}", digest) != digest:
            raise UserError(f"{place}/{name} is not the file of its run's manifest; {remedy}")


def _runs(
    store: Store, study: Study, method: str, new: Path, had: set[tuple[str, str]]
) -> list[dict]:
    """Fetch a method's runs below `new`/fetched; their entries in runs.json.

    Those in `had`, which are collected already, are left out.
    """
    wanted = [run for run in study.method(method).runs if (method, run) not in had]
    if not wanted:
        return []
    folder = new / "fetched" / method
    tracking = _fetch(store, study, method, folder)
    found = []
    for run in wanted:
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


def _evaluations(
    new: Path, study: Study, runs: list[dict]
) -> Iterator[tuple[Path, dict, dict, bool]]:
    """Yield (folder, run, benchmark's entry, whether it is of the selected update).

    Runs, their updates and benchmarks come in the study's order.
    """
    for run in runs:
        folder = new / "fetched" / run["method"] / run["run"] / "evaluation"
        further = run["evaluation"].get("further_updates", {}).values()
        for evaluated in (run["evaluation"], *further):
            found = evaluated["benchmarks"]
            for name in study.benchmarks:
                if name not in found:
                    raise UserError(
                        f"run {run['run']} of {run['method']} was not evaluated on {name}; "
                        "evaluate it, mirror it, and collect again"
                    )
                yield folder, run, found[name], evaluated is run["evaluation"]


def _write_predictions(new: Path, study: Study, runs: list[dict]) -> None:
    """Gather all predictions into one table and all dialogues into one folder.

    Predictions of `also_evaluate` have a table of their own.
    """
    selected: list[pyarrow.Table] = []
    further: list[pyarrow.Table] = []
    for folder, run, benchmark, is_selected in _evaluations(new, study, runs):
        path = folder / benchmark["predictions"]
        table = read_predictions(path)
        if len(table) != benchmark["cases"]:
            raise UserError(
                f"{path} has {len(table)} rows for {benchmark['cases']} cases; evaluate again"
            )
        (selected if is_selected else further).append(table)
        dialogues = new / "dialogues" / run["method"] / run["run"] / benchmark["dialogues"]
        dialogues.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(folder / benchmark["dialogues"], dialogues)
    write_table(new / "predictions.parquet", pyarrow.concat_tables(selected))
    if further:
        write_table(new / "further_updates.parquet", pyarrow.concat_tables(further))


def _write_validations(new: Path, runs: list[dict]) -> None:
    """Gather the predictions of all checkpoints on the development benchmark, by run and update."""
    tables = []
    for run in runs:
        folder = new / "fetched" / run["method"] / run["run"] / "training" / "validation"
        tables += [read_predictions(path) for path in sorted(folder.glob("*.parquet"))]
    if tables:
        write_table(new / "validations.parquet", pyarrow.concat_tables(tables))


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
