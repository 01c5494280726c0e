"""The MLflow store of a study: where it is, and how it is opened.

MLflow is imported inside functions only: the import takes seconds, and training needs none of it.
"""

import logging
import os
import re
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import quote

from pcqc_base.errors import UserError, describe
from pcqc_study.study_file import Study, tracking_uri

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Experiment, Run

SQLITE = "sqlite:///"
POINTS_PER_CALL = 1000  # MLflow's limit


@dataclass(frozen=True)
class Store:
    """An opened MLflow store and the experiment of one study in it."""

    client: "MlflowClient"
    experiment: "Experiment"


def open_store(study: Study) -> Store:
    """Open the prepared store of a study; call it inside `answering`.

    Raises UserError where the store was not prepared, or not since the folder was moved.
    """
    load_mlflow(study)
    from mlflow import MlflowClient

    uri = tracking_uri(study)
    remedy = "run the workflow again"
    if database := sqlite_file(uri):
        if not database.exists():
            raise UserError(f"there is no MLflow store at {database}; {remedy}")
        check_writable(study, database)
    client = MlflowClient(connection(study))
    experiment = client.get_experiment_by_name(study.name)
    if experiment is None or experiment.lifecycle_stage != "active":
        raise UserError(f"MLflow at {masked(uri)} has no experiment '{study.name}'; {remedy}")
    if is_elsewhere(study, experiment.artifact_location):
        place = experiment.artifact_location
        raise UserError(f"{database} keeps its artifacts in {place}: it was moved; {remedy}")
    return Store(client, experiment)


def sqlite_file(uri: str) -> Path | None:
    """The database file of an SQLite URI, or None for any other store."""
    return Path(uri.removeprefix(SQLITE).split("?")[0]) if uri.startswith(SQLITE) else None


def masked(text: str) -> str:
    """A text whose addresses show no password, no token and no other value of a query.

    Settings have none, but MLFLOW_TRACKING_URI may, and error messages repeat it.
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
        packages = {kind.__module__.split(".")[0] for kind in type(problem).__mro__}
        if packages & {"mlflow", "requests", "urllib3", "sqlalchemy", "sqlite3"}:
            uri, cause = tracking_uri(study), _first_cause(problem)
            reason = masked(" ".join(str(cause).split()))[:200] or type(cause).__name__
            if (file := sqlite_file(uri)) and type(cause) is sqlite3.DatabaseError:
                remedy = f"it is damaged: move {file} away and run the workflow again"
            raise UserError(
                f"MLflow at {masked(uri)} did not answer: {reason}; {remedy}"
            ) from problem
        if isinstance(problem, OSError):
            path = problem.filename2 or problem.filename or "results"  # of two, the copy
            raise UserError(f"cannot write {path}: {describe(problem)}, then {remedy}") from problem
        raise


def _first_cause(problem: BaseException) -> BaseException:
    """What started a chain of exceptions: a time-out, a locked database."""
    while cause := problem.__cause__ or problem.__context__:
        problem = cause
    return problem


def load_mlflow(study: Study) -> None:
    """Import MLflow with bounded time-outs and a quiet log; the user's own variables win.

    Raises UserError for a store that is neither SQLite nor behind a server: MLflow no longer
    maintains the one in plain files, and other databases are reached through `mlflow server`.
    """
    uri = tracking_uri(study)
    if not uri.startswith((SQLITE, "http://", "https://")):
        raise UserError(
            f"the MLflow address '{masked(uri)}' is neither sqlite:///<file> nor http(s)://...; "
            "fix tracking.uri or MLFLOW_TRACKING_URI"
        )
    # Two attempts, each a little under half of the time, fit into the study's time-out.
    attempt = max(1, int(study.tracking.timeout_seconds / 2 - 1))
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", str(attempt))
    import_mlflow()


def import_mlflow() -> None:
    """Import MLflow, which takes seconds, with a quiet log."""
    defaults = {
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_LOGGING_LEVEL": "WARNING",
        "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
        "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
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


def is_elsewhere(study: Study, location: str) -> bool:
    """Whether a local store has the artifacts elsewhere: its folder was renamed or copied.

    MLflow would go on reading and writing the artifacts of the original.
    """
    folder = artifacts(study)
    return folder is not None and Path(location) != folder


def is_lost(study: Study) -> bool:
    """Whether a local database is missing, was moved, or has nothing of the study or no more.

    It is read without MLflow, which could migrate its tables. A server is not asked.
    """
    database = sqlite_file(tracking_uri(study))
    if database is None:
        return False
    if not database.exists() or not database.stat().st_size:
        return True
    query = "SELECT artifact_location, lifecycle_stage FROM experiments WHERE name = ?"
    try:
        rows = _read(database, query, study.name)
    except sqlite3.Error:
        return False  # whoever opens it says what is wrong with it
    return not rows or rows[0][1] != "active" or is_elsewhere(study, rows[0][0])


def contents_held(study: Study) -> set[str] | None:
    """`contents` of all runs in a local database; None of a server, or where it cannot be read."""
    database = sqlite_file(tracking_uri(study))
    if database is None:
        return None
    try:
        rows = _read(database, "SELECT value FROM tags WHERE key = ?", "contents")
    except sqlite3.Error:
        return None
    return {value for (value,) in rows}


def _read(database: Path, query: str, value: str) -> list[tuple]:
    with closing(sqlite3.connect(f"{database.resolve().as_uri()}?mode=ro", uri=True)) as file:
        return file.execute(query, [value]).fetchall()


def check_writable(study: Study, database: Path) -> None:
    """Fail at once where the file is locked or no database; MLflow would retry for minutes."""
    path = f"file:{quote(str(database.resolve()))}?mode=rw"
    patience = study.tracking.timeout_seconds
    with closing(sqlite3.connect(path, uri=True, timeout=patience)) as file, file:
        file.execute("BEGIN IMMEDIATE")


def log_points(
    client: "MlflowClient",
    run_id: str,
    points: Iterable[tuple[str, float, int, int]],
    synchronous: bool = True,
) -> None:
    """Write (name, value, milliseconds since 1970, update) of each point, rounded for readers.

    Args:
        client: the store's.
        run_id: the run that gets the points.
        points: MLflow keeps one of two equal ones.
        synchronous: whether to return when all are written; else threads of MLflow write them.
    """
    from mlflow.entities import Metric

    entries = [Metric(name, rounded(value), time, update) for name, value, time, update in points]
    for start in range(0, len(entries), POINTS_PER_CALL):
        batch = entries[start : start + POINTS_PER_CALL]
        client.log_batch(run_id, metrics=batch, synchronous=synchronous)


def log_file(store: Store, run: "Run", path: Path, artifact: str) -> None:
    """Put a finished file among a run's artifacts: as a link, where the store is on its disk.

    A finished file is never written again, and whoever replaces one leaves the link as it was.
    """
    stored = Path(run.info.artifact_uri or "") / artifact
    if stored.is_absolute() and linked(path, stored):
        return
    parent = str(PurePosixPath(artifact).parent)
    store.client.log_artifact(run.info.run_id, str(path), None if parent == "." else parent)


def linked(path: Path, target: Path) -> bool:
    """Make a hard link to a file in place of what lies there; False where the disk makes none."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        os.link(path.resolve(), target)
    except OSError:
        return False
    return True


def rounded(value: float) -> float:
    """A number as the interface shows it: four decimals, and four digits where it is below 1."""
    return round(value, 4) if abs(value) >= 1 else float(f"{value:.4g}")


def artifact_paths(client: "MlflowClient", run_id: str, folder: str | None = None) -> list[str]:
    """Paths of all artifacts of a run."""
    paths = []
    for entry in client.list_artifacts(run_id, folder):
        paths += artifact_paths(client, run_id, entry.path) if entry.is_dir else [entry.path]
    return paths
