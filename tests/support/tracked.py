"""The jobs that speak to MLflow, done anew each time, as after an edit or a lost store."""

from collections.abc import Sequence
from pathlib import Path

from pcqc_base.system.manifest import MANIFEST, read_manifest
from pcqc_study.graph import latest
from pcqc_study.mlflow_mirror.finished import read_record
from pcqc_study.mlflow_mirror.mlflow_store import open_store
from pcqc_study.run_job import mirror_some, run_job
from pcqc_study.settings import Study


def mirror(study: Study, method: str, letters: Sequence[str] | None = None) -> Path:
    """Mirror all runs of a method, or some; the record of what MLflow holds."""
    _forget(study, "tracking", method)
    if letters:
        mirror_some(study, method, letters)
    else:
        run_job(study, "mirror", method)
    return latest(study, "mirror", method) / "record.json"


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
