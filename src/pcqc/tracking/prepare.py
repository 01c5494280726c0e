"""Preparing a study's MLflow store, and whether the store still holds what was mirrored."""

import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from pcqc.errors import UserError
from pcqc.study import Study, tracking_uri
from pcqc.study.job_outputs import job_output
from pcqc.study.paths import Paths
from pcqc.study.shapes import StoreRecord
from pcqc.system.files import hold, read_json, write_json
from pcqc.tracking import notes, views
from pcqc.tracking.finished import record_of
from pcqc.tracking.store import (
    SQLITE,
    answering,
    artifacts,
    check_working_directory,
    check_writable,
    connection,
    find_run,
    load_mlflow,
    masked,
    sizes,
    sqlite_file,
    was_moved,
    within,
)

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Experiment

PATIENCE = 300  # seconds for others that prepare the same database, which takes each some
KIND = "mlflow.experimentKind"  # decides whether the interface opens an experiment with its runs


def prepare(study: Study, number: int | None = None) -> str:
    """Make the store ready for a study and return the study's experiment id. Safe to call again.

    SQLite's tables are created or migrated, which concurrent first users would race. Records of
    runs that the store has lost are removed: their methods are mirrored again.

    Args:
        study: the study.
        number: of the preparation (see `preparation`), where Snakemake has deleted the last one.

    Raises:
        UserError: the store does not answer, is no MLflow database, or is locked.
    """
    number = number or preparation(study)
    uri = tracking_uri(study)
    load_mlflow(study)
    with answering(study, f"run `pcqc track prepare {study.name}` again"):
        if not (database := sqlite_file(uri)):
            experiment = within(study, lambda: describe_study(study))
        else:
            database.parent.mkdir(parents=True, exist_ok=True)
            lock = database.with_name(f".{database.name}.lock")
            with hold(lock, f"preparing {database}", PATIENCE):
                _migrate(study, database)
                experiment = describe_study(study)
        for method in _lost(study, connection(study)):
            mirrored = job_output(study, "mirror", method)
            mirrored.receipt_path.unlink()
            mirrored.path.unlink()
    entry = {
        "experiment_id": experiment.experiment_id,
        "preparation": number,
        "view": views.RESULTS,
    }
    result = job_output(study, "store")
    write_json(result.path, entry)
    result.vouch([result.path])
    return experiment.experiment_id


def preparation(study: Study) -> int:
    """Number of the preparation that a study needs: the last, or the next where runs are lost.

    The store is compared with the records of what was mirrored into it, and nothing is changed: of
    an SQLite database a copy is read. A store that does not answer is not taken for a lost one.
    """
    check_working_directory(study)
    path = Paths.of(study).store
    if not path.exists():
        return 1
    known = read_json(path, StoreRecord, f"remove {path} and run the workflow again")
    last, database = known["preparation"], sqlite_file(tracking_uri(study))
    if database and not database.exists():
        return last + 1
    if not _recorded(study):
        return last
    load_mlflow(study)
    try:
        with answering(study, "what it holds is not checked"):
            lost = _lost_of_copy(study, database) if database else _lost_of_server(study)
    except UserError as problem:
        print(f"pcqc: warning: {problem}", file=sys.stderr)
        return last
    return last + 1 if lost else last


def _lost_of_copy(study: Study, database: Path) -> list[str]:
    """What a consistent copy lacks: opening the original could migrate its tables."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy.db"
        source = sqlite3.connect(f"{database.resolve().as_uri()}?mode=ro", uri=True)
        with closing(source), closing(sqlite3.connect(copy)) as target:
            source.backup(target)
        return _lost(study, f"{SQLITE}{copy}")


def _lost_of_server(study: Study) -> list[str]:
    return within(study, lambda: _lost(study, connection(study)))


def _lost(study: Study, address: str) -> list[str]:
    """Methods of which the store lacks a run, or an artifact of one, that their record names."""
    from mlflow import MlflowClient

    client, recorded = MlflowClient(address), _recorded(study)
    experiment = client.get_experiment_by_name(study.name)
    if experiment is None or was_moved(study, experiment):
        return recorded
    return [m for m in recorded if not _holds(client, experiment, record_of(study, m))]


def _recorded(study: Study) -> list[str]:
    """Methods whose mirror has finished; one whose record was moved away is mirrored again."""
    mirrored = {method: job_output(study, "mirror", method) for method in study.methods}
    return [m for m, one in mirrored.items() if one.receipt_path.exists() and one.path.exists()]


def _holds(client: "MlflowClient", experiment: "Experiment", record: dict) -> bool:
    if record["experiment_id"] != experiment.experiment_id:
        return False
    for entry in record["runs"].values():
        run = find_run(client, entry["run_id"])
        if run is None or not set(entry["artifacts"]) <= set(sizes(client, entry["run_id"])):
            return False
    return True


def _migrate(study: Study, database: Path) -> None:
    """Give the database the tables of this MLflow version.

    A new one is made under another name and renamed: a kill leaves none or a whole one.
    """
    from mlflow.exceptions import MlflowException

    if not database.exists() or not database.stat().st_size:
        new = database.with_name(f".{database.name}.new")
        for leftover in (new, new.with_name(f"{new.name}-journal")):
            leftover.unlink(missing_ok=True)
        _open(f"{SQLITE}{new.resolve()}")
        os.replace(new, database)
        return
    check_writable(study, database)
    try:
        _open(connection(study))
    except MlflowException as problem:
        if "mlflow db upgrade" not in str(problem):
            raise
        _upgrade(database)


def _open(address: str) -> None:
    """Open a database; MLflow gives an empty one its tables."""
    from mlflow import MlflowClient

    MlflowClient(address).search_experiments(max_results=1)


def _upgrade(database: Path) -> None:
    """Bring the tables of an earlier MLflow version up to date."""
    command = [sys.executable, "-m", "mlflow", "db", "upgrade", f"{SQLITE}{database}"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"])[-1]
        raise UserError(f"`mlflow db upgrade` cannot migrate {database}: {last}")


def describe_study(study: Study) -> "Experiment":
    """The study's experiment, created where missing, with its description brought up to date."""
    from mlflow import MlflowClient

    client = MlflowClient(connection(study))
    experiment = client.get_experiment_by_name(study.name)
    if experiment is not None and was_moved(study, experiment):
        _set_aside(client, study, experiment)
        experiment = None
    if experiment is None:
        experiment = _create(client, study)
    if experiment.lifecycle_stage != "active":
        uri = masked(tracking_uri(study))
        raise UserError(
            f"the experiment '{study.name}' in MLflow at {uri} was deleted; "
            f"`mlflow experiments restore -x {experiment.experiment_id}` brings it back"
        )
    tags = {
        notes.NOTE: notes.of_study(study),
        KIND: "custom_model_development",
        views.TAG: views.of_study(study, experiment),
    }
    for name, value in tags.items():
        if experiment.tags.get(name) != value:
            client.set_experiment_tag(experiment.experiment_id, name, value)
    return experiment


def _create(client: "MlflowClient", study: Study) -> "Experiment":
    from mlflow.exceptions import MlflowException

    folder = artifacts(study)
    try:
        client.create_experiment(study.name, str(folder) if folder else None)
    except MlflowException as problem:
        # Two machines may prepare one server at once: the other one has just created it.
        if problem.error_code != "RESOURCE_ALREADY_EXISTS":
            raise
    return client.get_experiment_by_name(study.name)


def _set_aside(client: "MlflowClient", study: Study, experiment: "Experiment") -> None:
    """Rename the experiment of the folder's old place; MLflow cannot change where artifacts are."""
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime())
    note = notes.of_moved_study(study, experiment.artifact_location)
    client.set_experiment_tag(experiment.experiment_id, notes.NOTE, note)
    client.rename_experiment(experiment.experiment_id, f"{study.name}, moved {when} UTC")
