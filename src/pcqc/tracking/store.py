"""The MLflow store of a study: where it is, and how it is opened.

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

from pcqc.errors import UserError
from pcqc.study import Study, tracking_uri
from pcqc.system.files import describe

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Experiment, Run

SQLITE = "sqlite:///"


@dataclass(frozen=True)
class Store:
    """An opened MLflow store and the experiment of one study in it."""

    client: "MlflowClient"
    experiment: "Experiment"


def open_store(study: Study) -> Store:
    """Open the prepared store of a study; call it inside `answering`.

    Raises UserError where `prepare` has not been run, or not since the folder was moved.
    """
    load_mlflow(study)
    from mlflow import MlflowClient

    uri = tracking_uri(study)
    if database := sqlite_file(uri):
        if not database.exists():
            raise _unprepared(study, f"there is no MLflow store at {database}")
        check_writable(study, database)

    def find() -> "tuple[MlflowClient, Experiment | None]":
        client = MlflowClient(connection(study))
        return client, client.get_experiment_by_name(study.name)

    client, experiment = within(study, find)
    if experiment is None or experiment.lifecycle_stage != "active":
        raise _unprepared(study, f"MLflow at {masked(uri)} has no experiment '{study.name}'")
    if was_moved(study, experiment):
        raise _unprepared(
            study, f"{database} keeps its artifacts in {experiment.artifact_location}: it was moved"
        )
    return Store(client, experiment)


def _unprepared(study: Study, what: str) -> UserError:
    return UserError(f"{what}; run `pcqc track prepare {study.name}` first")


def sqlite_file(uri: str) -> Path | None:
    """The database file of an SQLite URI, or None for any other store."""
    return Path(uri.removeprefix(SQLITE).split("?")[0]) if uri.startswith(SQLITE) else None


def masked(text: str) -> str:
    """A text whose addresses show no password, no token and no other value of a query.

    Settings have none, but MLFLOW_TRACKING_URI may, and what goes wrong repeats it.
    """
    text = re.sub(r"(?<=://)[^/\s]*@", "***@", text)
    return re.sub(r"(?<=[?&])([^=&\s]+)=[^&\s'\";,)]+", r"\1=***", text)


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
            uri = masked(tracking_uri(study))
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
    return masked(" ".join(str(problem).split()))[:200] or type(problem).__name__


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


def check_working_directory(study: Study) -> None:
    """UserError where MLflow cannot make a database: it writes the path into SQL as it is."""
    here = str(Path.cwd())
    if sqlite_file(tracking_uri(study)) and "'" in here and '"' in here:
        raise UserError(
            f"{here}: MLflow makes no SQLite store below a path with both kinds of quotes; rename "
            "the folder, or name a server in tracking.uri or MLFLOW_TRACKING_URI"
        )


def load_mlflow(study: Study) -> None:
    """Import MLflow, its waiting bounded and its log quiet; what the user has set stands.

    This comes before any clock starts: a cold disk is not a silent MLflow.

    Raises UserError for a store that is neither SQLite nor behind a server: MLflow no longer keeps
    up the one in plain files, and other databases are reached through `mlflow server`.
    """
    uri = tracking_uri(study)
    if not uri.startswith((SQLITE, "http://", "https://")):
        raise UserError(
            f"the MLflow address '{masked(uri)}' is neither sqlite:///<file> nor http(s)://...; "
            "fix tracking.uri or MLFLOW_TRACKING_URI"
        )
    check_working_directory(study)
    # Two attempts, each a little under half of the time, fit into the study's time-out.
    attempt = max(1, int(study.tracking.timeout_seconds / 2 - 1))
    defaults = {
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_LOGGING_LEVEL": "WARNING",
        "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
        "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
        "MLFLOW_ENABLE_ASYNC_TRACE_LOGGING": "false",
        "MLFLOW_HTTP_REQUEST_TIMEOUT": str(attempt),
        "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
        "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
        "MLFLOW_HTTP_RESPECT_RETRY_AFTER_HEADER": "false",
    }
    for name, value in defaults.items():
        os.environ.setdefault(name, value)
    logging.getLogger("urllib3").setLevel(logging.ERROR)
    import mlflow  # noqa: F401


def connection(study: Study) -> str:
    """The URI that the client opens: SQLite waits for other writers as long as the time-out.

    The path is made absolute, because MLflow caches connections by their URI.
    """
    uri = tracking_uri(study)
    database = sqlite_file(uri)
    if not database or "?" in uri:
        return uri
    return f"{SQLITE}{database.resolve()}?timeout={study.tracking.timeout_seconds:g}"


def artifacts(study: Study) -> Path | None:
    """Folder of a study's artifacts, beside its SQLite database; None where a server keeps them.

    MLflow stores the absolute path, whatever it is given.
    """
    database = sqlite_file(tracking_uri(study))
    return database and database.resolve().parent / "mlartifacts" / study.name


def was_moved(study: Study, experiment: "Experiment") -> bool:
    """Whether the folder of a local store was renamed or copied since the experiment was made.

    MLflow would go on reading and writing the artifacts of the original.
    """
    folder = artifacts(study)
    return folder is not None and Path(experiment.artifact_location) != folder


def check_writable(study: Study, database: Path) -> None:
    """Fail at once where the file is locked or no database; MLflow would retry for minutes."""
    path = f"file:{quote(str(database.resolve()))}?mode=rw"
    patience = study.tracking.timeout_seconds
    with closing(sqlite3.connect(path, uri=True, timeout=patience)) as file, file:
        file.execute("BEGIN IMMEDIATE")


def find_run(client: "MlflowClient", run_id: str) -> "Run | None":
    """A run that the interface shows; None where it is missing or was deleted."""
    from mlflow.exceptions import MlflowException

    try:
        run = client.get_run(run_id)
    except MlflowException as problem:
        if problem.error_code != "RESOURCE_DOES_NOT_EXIST":
            raise
        return None
    return run if run.info.lifecycle_stage == "active" else None


def sizes(client: "MlflowClient", run_id: str, folder: str | None = None) -> dict[str, int]:
    """Size in bytes of every artifact of a run, by its path."""
    found: dict[str, int] = {}
    for entry in client.list_artifacts(run_id, folder):
        if entry.is_dir:
            found |= sizes(client, run_id, entry.path)
        else:
            found[entry.path] = entry.file_size
    return found
