"""What is checked before a workflow starts: altered results, and whether MLflow's store is lost."""

from collections.abc import Iterable

from pcqc_base.errors import UserError
from pcqc_base.system.files import read_json
from pcqc_base.system.manifest import REMEDY, accepted, checked, mark, unmark, verify
from pcqc_study.fingerprint import Job
from pcqc_study.graph import Jobs, is_archived
from pcqc_study.job_kinds import IN_STORE
from pcqc_study.mlflow_mirror.open_store import contents_held, is_lost
from pcqc_study.study_file import Study


def prepare_to_run(study: Study, writes: bool = True) -> None:
    """Check every finished result that the workflow goes on from, and mark it as made.

    What a lost store had is not marked: it is written to the new store.

    Args:
        study: the study.
        writes: whether markers change; not where a user only looks at what would run.

    Raises:
        UserError: a file was altered or removed since it was written; names it, and the remedy.
    """
    jobs = list(Jobs(study).all())
    lost = lacks_runs(study, jobs)
    for job in jobs:
        if job.manifest.exists():
            verify(job.path)
        elif job.marker.exists():  # the workflow would take it for made, and stop at what reads it
            raise UserError(f"{job.manifest}: missing; move {job.path} away and {REMEDY}")
        else:
            continue
        if writes and lost and job.kind in IN_STORE:
            unmark(job)
        elif writes and not is_archived(job):
            mark(job)
            accepted(job)


def lacks_runs(study: Study, jobs: Iterable[Job]) -> bool:
    """Whether MLflow's local store is lost, or is a new one that lacks runs of finished mirrors.

    That is so after a database was deleted while a workflow ran.

    Args:
        study: the study.
        jobs: all of its jobs.
    """
    if is_lost(study):
        return True
    if (held := contents_held(study)) is None:
        return False
    made = (j for j in jobs if j.kind == "mirror" and j.manifest.exists() and j.marker.exists())
    records = (read_json(checked(job.path / "record.json")) for job in made)
    return any(run["contents"] not in held for record in records for run in record.values())
