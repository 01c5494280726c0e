"""The MLflow store of a study: where it is, its one-time preparation, and how it is opened.

MLflow is imported here and in its neighbours inside functions only: the import takes seconds and
runs need none of it.
"""

import logging
import os
import re
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from pcqc.config import Study, tracking_uri
from pcqc.errors import UserError
from pcqc.files import describe, hold
from pcqc.tracking import notes

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Experiment
    from mlflow.tracing.client import TracingClient

SQLITE = "sqlite:///"


@dataclass(frozen=True)
class Store:
    """An opened MLflow store and the experiment of one study in it."""

    client: "MlflowClient"
    traces: "TracingClient"
    experiment: "Experiment"


def prepare(study: Study) -> str:
    """Make the store ready for a study and return the study's experiment id. Safe to call again.

    For SQLite this creates or migrates the tables, which concurrent first users would race; every
    other command expects it done. A new database is built under another name and renamed, so that
    a kill leaves either none or a whole one.

    Raises:
        UserError: the store does not answer, is no MLflow database, is locked, or keeps its
            artifacts in another folder than the one beside it, which was not copied with it.
    """
    uri = tracking_uri(study)
    load_mlflow(study)
    with answering(study, f"run `pcqc track prepare {study.name}` again"):
        database = sqlite_file(uri)
        if not database:
            return within(study, lambda: _experiment(study, uri, None)).experiment_id
        database.parent.mkdir(parents=True, exist_ok=True)
        lock = database.with_name(f".{database.name}.lock")
        with hold(lock, f"preparing {database}", study.tracking.timeout_seconds):
            _migrate(study, database)
            _follow(study, database)
            return _experiment(study, uri, _artifacts(study, database)).experiment_id


def open_store(study: Study) -> Store:
    """Open the prepared store of a study; call it inside `answering`.

    Raises UserError where `prepare` has not been run.
    """
    load_mlflow(study)
    from mlflow import MlflowClient
    from mlflow.tracing.client import TracingClient

    def find() -> "tuple[MlflowClient, Experiment | None]":
        client = MlflowClient(connection)
        return client, client.get_experiment_by_name(study.name)

    uri = tracking_uri(study)
    if database := sqlite_file(uri):
        _check_sqlite(study, database)
        _follow(study, database)
    connection = _connection(study, uri)
    client, experiment = within(study, find)
    if experiment is None or experiment.lifecycle_stage != "active":
        raise UserError(
            f"MLflow at {shown(uri)} has no experiment '{study.name}'; "
            f"run `pcqc track prepare {study.name}` first"
        )
    return Store(client, TracingClient(connection), experiment)


def sqlite_file(uri: str) -> Path | None:
    """The database file of an SQLite URI, or None for any other store."""
    return Path(uri.removeprefix(SQLITE).split("?")[0]) if uri.startswith(SQLITE) else None


def shown(uri: str) -> str:
    """The URI as messages may show it: without a password."""
    return re.sub(r"//[^/@]*@", "//***@", uri)


@contextmanager
def answering(study: Study, remedy: str) -> Iterator[None]:
    """Turn what a failing store or disk raises into one line that ends with `remedy`."""
    try:
        yield
    except UserError:
        raise
    except Exception as problem:
        makers = {kind.__module__.split(".")[0] for kind in type(problem).__mro__}
        if makers & {"mlflow", "requests", "urllib3", "sqlalchemy"} or isinstance(
            problem, sqlite3.Error | TimeoutError | NotImplementedError
        ):
            uri = shown(tracking_uri(study))
            raise UserError(
                f"MLflow at {uri} did not answer: {_reason(problem)}; {remedy}"
            ) from problem
        if isinstance(problem, OSError):
            file = problem.filename2 or problem.filename or "results"  # of two, the copy
            raise UserError(f"cannot write {file}: {describe(problem)}, then {remedy}") from problem
        raise


def _reason(problem: BaseException) -> str:
    """What started a chain of exceptions, on one short line: a time-out, a locked database."""
    while deeper := problem.__cause__ or problem.__context__:
        problem = deeper
    return shown(" ".join(str(problem).split()))[:200] or type(problem).__name__


def within(study: Study, call: Callable[[], Any]) -> Any:
    """The result of `call`, or TimeoutError after the study's `tracking.timeout_seconds`.

    A store has more ways to hang than its time-outs cover: a trickling server, retries of a
    database that is away. The abandoned thread is a daemon and ends with the process.
    """
    outcome: list[tuple[Any, Exception | None]] = []

    def work() -> None:
        try:
            outcome.append((call(), None))
        except Exception as problem:
            outcome.append((None, problem))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(study.tracking.timeout_seconds)
    if not outcome:
        raise TimeoutError(f"nothing within {study.tracking.timeout_seconds:g} s")
    result, problem = outcome[0]
    if problem:
        raise problem
    return result


def load_mlflow(study: Study) -> None:
    """Import MLflow, its waiting bounded and its log quiet; what the user has set stands.

    This comes before any clock starts: a cold disk is not a silent MLflow.

    Raises UserError for a store that is neither SQLite nor behind a server: MLflow no longer keeps
    up the one in plain files, and other databases are reached through `mlflow server`.
    """
    uri = tracking_uri(study)
    if not uri.startswith((SQLITE, "http://", "https://")):
        raise UserError(
            f"the MLflow address '{shown(uri)}' is neither sqlite:///<file> nor http(s)://...; "
            "fix tracking.uri or MLFLOW_TRACKING_URI"
        )
    # Two attempts, each a little under half of the time, fit into the study's time-out.
    attempt = max(1, int(study.tracking.timeout_seconds / 2 - 1))
    defaults = {
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_LOGGING_LEVEL": "WARNING",
        "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
        "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
        "MLFLOW_HTTP_REQUEST_TIMEOUT": str(attempt),
        "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
        "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
        "MLFLOW_HTTP_RESPECT_RETRY_AFTER_HEADER": "false",
    }
    for name, value in defaults.items():
        os.environ.setdefault(name, value)
    logging.getLogger("urllib3").setLevel(logging.ERROR)
    import mlflow  # noqa: F401


def _connection(study: Study, uri: str) -> str:
    """The URI that the client opens: SQLite waits for other writers as long as the time-out.

    The path is made absolute, because MLflow caches connections by their URI.
    """
    database = sqlite_file(uri)
    if not database or "?" in uri:
        return uri
    return f"{SQLITE}{database.resolve()}?timeout={study.tracking.timeout_seconds:g}"


def _check_sqlite(study: Study, database: Path) -> None:
    """Fail at once, in words, where MLflow would retry for minutes or migrate unasked."""
    if not database.exists():
        raise UserError(
            f"there is no MLflow store at {database}; run `pcqc track prepare {study.name}` first"
        )
    with _writing(study, database):
        pass


@contextmanager
def _writing(study: Study, database: Path) -> Iterator[sqlite3.Connection]:
    """A transaction on an existing database, which waits for other writers."""
    path = f"file:{quote(str(database.resolve()))}?mode=rw"
    patience = study.tracking.timeout_seconds
    with closing(sqlite3.connect(path, uri=True, timeout=patience)) as connection, connection:
        connection.execute("BEGIN IMMEDIATE")
        yield connection


def _migrate(study: Study, database: Path) -> None:
    """Give the database the tables of this MLflow version, as `mlflow db upgrade` does."""
    import mlflow.store.db.utils as tables

    if database.exists() and database.stat().st_size:
        _check_sqlite(study, database)
        engine = tables.create_sqlalchemy_engine(SQLITE + str(database))
        if tables._get_schema_version(engine) != tables._get_latest_schema_revision():
            tables._upgrade_db(engine)
        engine.dispose()
        return
    new = database.with_name(f".{database.name}.new")
    for leftover in (new, new.with_name(f"{new.name}-journal")):
        leftover.unlink(missing_ok=True)
    engine = tables.create_sqlalchemy_engine(SQLITE + str(new))
    tables._initialize_tables(engine)
    engine.dispose()
    os.replace(new, database)


def _artifacts(study: Study, database: Path) -> Path:
    """Where a study's artifacts lie: beside the database.

    MLflow stores the absolute path, whatever it is given. That is also what lets the UI find the
    artifacts from any working directory.
    """
    return database.resolve().parent / "mlartifacts" / study.name


def _follow(study: Study, database: Path) -> None:
    """After the folder was renamed or copied, point the database to the artifacts beside it.

    MLflow has no call for this, and would go on reading and writing those of the original.
    """
    here = _artifacts(study, database)
    query = "SELECT artifact_location FROM experiments WHERE name = ?"
    with _writing(study, database) as connection:
        row = connection.execute(query, [study.name]).fetchone()
        if row is None or row[0] == str(here) or Path(row[0]).parts[-2:] != here.parts[-2:]:
            return
        if Path(row[0]).exists() and not here.exists():
            raise UserError(f"{database} has its artifacts in {row[0]}: copy that folder to {here}")
        for column in ("experiments.artifact_location", "runs.artifact_uri", "trace_tags.value"):
            table, name = column.split(".")
            connection.execute(
                f"UPDATE {table} SET {name} = :new || substr({name}, length(:old) + 1) "
                f"WHERE {name} = :old OR substr({name}, 1, length(:old) + 1) = :old || '/'",
                {"old": row[0], "new": str(here)},
            )


def _experiment(study: Study, uri: str, artifacts: Path | None) -> "Experiment":
    """The study's experiment, created where missing, with its description brought up to date."""
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    client = MlflowClient(_connection(study, uri))
    experiment = client.get_experiment_by_name(study.name)
    if experiment is None:
        try:
            client.create_experiment(study.name, str(artifacts) if artifacts else None)
        except MlflowException as problem:
            # Two machines may prepare one server at once: the other one has just created it.
            if problem.error_code != "RESOURCE_ALREADY_EXISTS":
                raise
        experiment = client.get_experiment_by_name(study.name)
    if experiment.lifecycle_stage != "active":
        raise UserError(
            f"the experiment '{study.name}' in MLflow at {shown(uri)} was deleted; "
            f"`mlflow experiments restore -x {experiment.experiment_id}` brings it back"
        )
    if artifacts and Path(experiment.artifact_location) != artifacts:
        raise UserError(
            f"{sqlite_file(uri)} keeps its artifacts in {experiment.artifact_location}, not in "
            f"{artifacts}: move the folder back, or remove the database and mirror the runs again"
        )
    note = notes.of_study(study)
    if experiment.tags.get(notes.NOTE) != note:
        client.set_experiment_tag(experiment.experiment_id, notes.NOTE, note)
    return experiment
