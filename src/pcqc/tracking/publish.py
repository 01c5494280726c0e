"""A study's report, tables, figures and transcripts as artifacts of one run in MLflow."""

import time
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from pcqc.errors import UserError
from pcqc.study import Study, digest
from pcqc.system.files import hold, sha256_file
from pcqc.tracking import notes
from pcqc.tracking.finished import published, write_published
from pcqc.tracking.store import Store, answering, artifact_paths, open_store

if TYPE_CHECKING:
    from mlflow.entities import Run

# Below the study's results; what is not there is left out.
FILES = ("report.html", "paper.tex", "paper.pdf")
FOLDERS = ("tables", "figures", "transcripts")


def publish(study: Study) -> Path:
    """Put the study's results into its own MLflow run; the path of the record.

    There is one such run a study. Where the files have changed it is filled again.

    Raises:
        UserError: there is no report, or MLflow fails. Calling again completes what was begun.
    """
    paths = [path for name in FILES if (path := study.results / name).exists()]
    for name in FOLDERS:
        paths += [path for path in sorted((study.results / name).rglob("*")) if path.is_file()]
    files = {str(PurePosixPath(path.relative_to(study.results))): path for path in paths}
    if "report.html" not in files:
        raise UserError(f"{study.results / 'report.html'}: missing; run `pcqc report {study.name}`")
    sha256 = {name: sha256_file(path) for name, path in files.items()}
    lock = published(study).with_name(".published.lock")
    remedy = f"rerun `pcqc track publish {study.name}`"
    with answering(study, remedy), hold(lock, "publishing", study.tracking.timeout_seconds):
        store = open_store(study)
        client, run = store.client, _run(store, study, files)
        run_id, contents = run.info.run_id, digest(sha256)
        if run.data.tags.get("contents") != contents:
            for name, path in files.items():
                folder = str(PurePosixPath(name).parent)
                client.log_artifact(run_id, str(path), None if folder == "." else folder)
            client.set_tag(run_id, notes.NOTE, notes.of_report(study))
            client.set_tag(run_id, "contents", contents)
            client.set_terminated(run_id, "FINISHED")
        return write_published(study, {"run_id": run_id, "artifacts": sha256})


def _run(store: Store, study: Study, files: dict[str, Path]) -> "Run":
    """The study's own run, created where it is missing or has more than the files.

    MLflow deletes no single artifact: a run that has more is deleted as a whole.
    """
    experiment = store.experiment.experiment_id
    for run in store.client.search_runs([experiment], "tags.stage = 'study'"):
        if set(artifact_paths(store.client, run.info.run_id)) <= set(files):
            return run
        store.client.delete_run(run.info.run_id)
    tags, now = {"study": study.name, "stage": "study"}, round(1000 * time.time())
    return store.client.create_run(experiment, now, tags, notes.REPORT)
