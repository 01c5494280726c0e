"""A study's report, tables, figures and transcripts as artifacts of one run in MLflow."""

import time
from pathlib import Path
from typing import TYPE_CHECKING

from pcqc_base.system.manifest import checked, read_manifest
from pcqc_base.task import Task
from pcqc_study.mlflow_mirror import notes
from pcqc_study.mlflow_mirror.open_store import (
    Store,
    answering,
    artifact_paths,
    log_file,
    open_store,
)
from pcqc_study.study_file import Study

if TYPE_CHECKING:
    from mlflow.entities import Run


def run(task: Task, study: Study) -> dict:
    """Put the report's files into the study's own MLflow run; which run it is.

    There is one such run a study. Where the files have changed it is filled again.

    Raises:
        UserError: MLflow fails. Calling again completes what was begun.
    """
    folder = checked(task.inputs["report"])
    files = {name: folder / name for name in read_manifest(folder)["files"]}
    with answering(study, f"rerun `pcqc publish {study.name}`"):
        store = open_store(study)
        client, target = store.client, _run(store, study, files)
        run_id, fingerprint = target.info.run_id, folder.resolve().name
        if target.data.tags.get("fingerprint") != fingerprint:
            for name, path in files.items():
                log_file(store, target, path, name)
            client.set_tag(run_id, notes.NOTE, notes.of_report(study))
            client.set_tag(run_id, "fingerprint", fingerprint)
            client.set_terminated(run_id, "FINISHED")
    return {"run_id": run_id}


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
