"""What is checked before a workflow starts: altered results, and what MLflow's store has lost."""

from pcqc.system.manifest import make_latest, verify
from pcqc_study.graph import Jobs
from pcqc_study.settings import Study


def prepare_to_run(study: Study) -> None:
    """Check every finished result that the workflow goes on from, and let `latest` name it.

    Raises:
        UserError: a file was altered or removed since it was written; names it, and the remedy.
    """
    from pcqc_study.mlflow_mirror.prepare import note_losses

    note_losses(study)
    jobs = Jobs(study)
    for job in jobs.all():
        if job.manifest.exists():
            verify(job.path)
            make_latest(job)
