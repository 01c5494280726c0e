"""What is checked before a workflow starts: results that were altered since they were made."""

from pcqc.system.manifest import accepted, mark, verify
from pcqc_study.graph import Jobs
from pcqc_study.settings import Study


def prepare_to_run(study: Study, writes: bool = True) -> None:
    """Check every finished result that the workflow goes on from, and mark it as made.

    Args:
        study: the study.
        writes: whether markers are written; not where a user only looks at what would run.

    Raises:
        UserError: a file was altered or removed since it was written; names it, and the remedy.
    """
    for job in Jobs(study).all():
        if job.manifest.exists():
            verify(job.path)
            if writes:
                mark(job)
                accepted(job)
