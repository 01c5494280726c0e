"""A study's report, tables, figures and transcripts as artifacts of one run in MLflow."""

import time
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from pcqc.errors import UserError
from pcqc.study import Study, digest
from pcqc.study.job_outputs import job_output
from pcqc.system.files import hold, sha256_file, write_json
from pcqc.tracking import notes
from pcqc.tracking.store import Store, answering, open_store, sizes

if TYPE_CHECKING:
    from mlflow.entities import Run

# Below the study's results; what is not there is left out.
WHOLE = ("report.html", "paper.tex", "paper.pdf")
FOLDERS = ("tables", "figures", "transcripts")
STAGE = "study"


def published(study: Study) -> Path:
    """The record of what was published, and in which run."""
    return job_output(study, "publish").path


def publish(study: Study) -> Path:
    """Put what the study found into its own MLflow run; the path of the record.

    There is one such run a study. It is brought up to date; what has not changed is left alone.
    MLflow deletes no single artifact, so where one is no longer among the files a new run takes
    the place of the old one, which is deleted.

    Raises:
        UserError: there is no report, or MLflow fails. Calling again completes what was begun.
    """
    files = {str(PurePosixPath(p.relative_to(study.results))): p for p in _files(study)}
    if "report.html" not in files:
        raise UserError(f"{study.results / 'report.html'}: missing; run `pcqc report {study.name}`")
    digests = {name: sha256_file(path) for name, path in files.items()}
    target = published(study)
    remedy = f"rerun `pcqc track publish {study.name}`"
    lock = target.with_name(".published.lock")
    with answering(study, remedy), hold(lock, "publishing", study.tracking.timeout_seconds):
        store = open_store(study)
        run = _run(store, study, files)
        contents = digest(digests)
        if run.data.tags.get("contents") != contents or not _is_whole(store, run, files):
            _fill(store, run, files)
            store.client.set_tag(run.info.run_id, notes.NOTE, notes.of_findings(study))
            store.client.set_tag(run.info.run_id, "contents", contents)
        store.client.set_terminated(run.info.run_id, "FINISHED")
        write_json(target, {"run_id": run.info.run_id, "artifacts": digests})
        job_output(study, "publish").vouch([target])
    return target


def _files(study: Study) -> list[Path]:
    found = [path for name in WHOLE if (path := study.results / name).exists()]
    for name in FOLDERS:
        found += [path for path in sorted((study.results / name).rglob("*")) if path.is_file()]
    return found


def _run(store: Store, study: Study, files: dict[str, Path]) -> "Run":
    """The study's own run, created where it is missing or holds what is no longer there."""
    experiment = store.experiment.experiment_id
    for run in store.client.search_runs([experiment], f"tags.stage = '{STAGE}'"):
        if set(sizes(store.client, run.info.run_id)) <= set(files):
            return run
        store.client.delete_run(run.info.run_id)
    tags = {"study": study.name, "stage": STAGE}
    now = round(1000 * time.time())
    return store.client.create_run(experiment, now, tags, "Report, tables, figures, transcripts")


def _is_whole(store: Store, run: "Run", files: dict[str, Path]) -> bool:
    present = sizes(store.client, run.info.run_id)
    return all(present.get(name) == path.stat().st_size for name, path in files.items())


def _fill(store: Store, run: "Run", files: dict[str, Path]) -> None:
    for name, path in files.items():
        folder = str(PurePosixPath(name).parent)
        store.client.log_artifact(run.info.run_id, str(path), None if folder == "." else folder)
