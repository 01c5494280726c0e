"""Results of jobs made by hand, where the jobs themselves would write them."""

from pathlib import Path

from pcqc.recipes.graph import Jobs
from pcqc.recipes.manifest import MANIFEST, begin, finish, read_manifest, write_manifest
from pcqc.settings import Study


def folder_of(study: Study, kind: str, *arguments: str) -> Path:
    """Folder of a job's result, by today's recipe."""
    return Jobs(study).job(kind, *arguments).path


def finish_all(study: Study) -> None:
    """Write the manifests of all jobs, none of which has one."""
    for job in Jobs(study).all():
        begin(job)
        finish(job, {})


def finish_job(study: Study, kind: str, *arguments: str, entries: dict | None = None) -> Path:
    """Write the manifest over the files that lie in a job's folder, anew where there is one."""
    job = Jobs(study).job(kind, *arguments)
    (job.path / MANIFEST).unlink(missing_ok=True)
    begin(job)
    finish(job, {})
    if entries:
        write_manifest(job.path, {**read_manifest(job.path), **entries})
    return job.path
