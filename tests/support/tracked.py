"""The jobs that speak to MLflow, done anew each time, as after an edit or a lost store."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pcqc_base.system.files import read_json
from pcqc_base.system.manifest import MANIFEST, checked, read_manifest
from pcqc_study.graph import Jobs, latest
from pcqc_study.mlflow_mirror import write_runs
from pcqc_study.mlflow_mirror.finished import FinishedRun
from pcqc_study.mlflow_mirror.open_store import open_store
from pcqc_study.run_job import perform, run_job, task_of
from pcqc_study.runs import load
from pcqc_study.study_file import Study


def mirror(study: Study, method: str, letters: Sequence[str] | None = None) -> Path:
    """Mirror all runs of a method, or some; the record of what MLflow holds."""
    _forget(study, "tracking", method)
    job = Jobs(study).job("mirror", method)
    wanted = letters or study.method(method).runs
    inputs = {name: made for name, made in job.inputs.items() if name.split()[1] in wanted}
    perform(replace(job, inputs=inputs), lambda job: write_runs.run(task_of(study, job), study))
    return latest(study, "mirror", method) / "record.json"


def finished(study: Study, method: str, run: str) -> FinishedRun:
    """A run as the mirror reads it."""
    return FinishedRun(study.results, method, run, load(study.results, method, run).folders, study)


def read_record(study: Study, method: str) -> dict:
    """Which MLflow run holds what of a method."""
    return read_json(checked(latest(study, "mirror", method) / "record.json"))


def ids(study: Study, method: str) -> dict[str, str]:
    """Letter -> id in MLflow of each run that the method's record names."""
    store, record = open_store(study), read_record(study, method)
    experiment = [store.experiment.experiment_id]
    return {
        letter: run.info.run_id
        for letter, entry in record.items()
        for run in store.client.search_runs(experiment, f"tags.contents = '{entry['contents']}'")
    }


def collect(study: Study) -> Path:
    """Collect all runs; the folder."""
    _forget(study, "collected")
    return run_job(study, "collect").path


def publish(study: Study) -> str:
    """Publish the report; the id of the study's own run."""
    _forget(study, "published")
    return read_manifest(run_job(study, "publish").path)["run_id"]


def _forget(study: Study, *folder: str) -> None:
    for path in study.results.joinpath(*folder).glob(f"*/{MANIFEST}"):
        path.unlink(missing_ok=True)
