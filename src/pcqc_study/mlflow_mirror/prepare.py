"""Preparing a study's MLflow store, once, before several jobs could race to do it."""

import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from pcqc_base.errors import UserError
from pcqc_base.system.locks import hold
from pcqc_study.mlflow_mirror import notes
from pcqc_study.mlflow_mirror.open_store import (
    SQLITE,
    answering,
    artifacts,
    check_writable,
    connection,
    is_elsewhere,
    load_mlflow,
    masked,
    sqlite_file,
)
from pcqc_study.study_file import Study, tracking_uri

if TYPE_CHECKING:
    from mlflow.entities import Experiment

PATIENCE = 300  # seconds to wait for others that prepare the same database
KIND = "mlflow.experimentKind"  # decides whether the interface opens an experiment with its runs
# What the interface's button "Share" writes, and a link with `viewStateShareKey=results` opens: by
# itself the list of runs has no metric, and MLflow has no other setting of its columns.
VIEW = "mlflow.sharedViewState.results"
COLUMN = "metrics.`evaluation/average/accuracy`"


def prepare(study: Study) -> str:
    """Make the store ready for a study and return the study's experiment id. Safe to call again.

    Of several jobs that call it at once, one prepares and the others wait.

    Raises:
        UserError: the store does not answer, is no MLflow database, or is locked.
    """
    load_mlflow(study)
    with answering(study, "run the workflow again"):
        if not (database := sqlite_file(tracking_uri(study))):
            return describe_study(study).experiment_id
        database.parent.mkdir(parents=True, exist_ok=True)
        lock = database.with_name(f".{database.name}.lock")
        with hold(lock, f"preparing {database}", PATIENCE):
            _migrate(study, database)
            return describe_study(study).experiment_id


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
        command = [sys.executable, "-m", "mlflow", "db", "upgrade", f"{SQLITE}{database}"]
        upgrade = subprocess.run(command, capture_output=True, text=True)
        if upgrade.returncode:
            last = (upgrade.stderr.strip().splitlines() or [f"status {upgrade.returncode}"])[-1]
            raise UserError(f"`mlflow db upgrade` cannot migrate {database}: {last}") from None


def _open(address: str) -> None:
    """Open a database; MLflow gives an empty one its tables."""
    from mlflow import MlflowClient

    MlflowClient(address).search_experiments(max_results=1)


def describe_study(study: Study) -> "Experiment":
    """The study's experiment, created where missing, with its description brought up to date."""
    from mlflow import MlflowClient

    client = MlflowClient(connection(study))
    experiment = client.get_experiment_by_name(study.name)
    if experiment is not None and is_elsewhere(study, experiment.artifact_location):
        # MLflow cannot change where artifacts are. All runs are mirrored again; those of the old
        # place are deleted as the interface does, so that `mlflow experiments restore` has them.
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime())
        old = experiment.experiment_id  # tells apart what was moved twice within a second
        client.rename_experiment(old, f"{study.name}, moved {when} UTC ({old})")
        client.delete_experiment(old)
        experiment = None
    if experiment is None:
        folder = artifacts(study)
        client.create_experiment(study.name, str(folder) if folder else None)
        experiment = client.get_experiment_by_name(study.name)
    if experiment.lifecycle_stage != "active":
        uri, named = tracking_uri(study), "MLFLOW_TRACKING_URI" in os.environ
        where = "" if named else f"MLFLOW_TRACKING_URI={shlex.quote(uri)} "
        raise UserError(
            f"the experiment '{study.name}' in MLflow at {masked(uri)} was deleted; type "
            f"`{where}mlflow experiments restore -x {experiment.experiment_id}` and run the "
            "workflow again"
        )
    tags = {
        notes.NOTE: notes.of_study(study),
        KIND: "custom_model_development",
        VIEW: json.dumps({"selectedColumns": [COLUMN]}),
    }
    for name, value in tags.items():
        if experiment.tags.get(name) != value:
            client.set_experiment_tag(experiment.experiment_id, name, value)
    return experiment
