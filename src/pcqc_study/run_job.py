"""Runs one job of a study: checks that it may, calls its function, writes its manifest."""

import importlib
import shutil
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

from pcqc.models.folder import require_docstrings
from pcqc_base.errors import UserError
from pcqc_base.system.manifest import (
    accepted,
    adopt,
    begin,
    finish,
    hold_folder,
    left_out,
    mark,
    remove_if_empty,
    verify,
)
from pcqc_base.system.processes import SINGLE_PROCESS, Processes
from pcqc_base.task import Task, Where
from pcqc_gpu.planning.memory import cache_tokens, roles_beside
from pcqc_study.fingerprint import Job, input_paths
from pcqc_study.graph import RIVALS, Jobs, is_archived
from pcqc_study.job_kinds import IN_STORE, KINDS
from pcqc_study.job_kinds.runs import rollouts
from pcqc_study.study_file import START, Study

AGAIN = ".again"  # folder beside a result in which it is made once more


def run_job(
    study: Study,
    kind: str,
    *arguments: str,
    fingerprint: str | None = None,
    processes: Processes = SINGLE_PROCESS,
) -> Job:
    """Run a job of a study unless its result is there; the job. See `perform`."""
    job = Jobs(study).job(kind, *arguments)
    perform(job, lambda job: _call(study, job, processes), fingerprint, processes)
    return job


def perform(
    job: Job,
    work: Callable[[Job], dict | None],
    fingerprint: str | None = None,
    processes: Processes = SINGLE_PROCESS,
) -> None:
    """Do a job's work unless its result is there, and write the manifest.

    Where an archive brought the result without its large files, they are made again beside it, and
    must be what its manifest says.

    Args:
        job: the job.
        work: writes the files of a job's result; returns entries of the manifest.
        fingerprint: short digest of the fingerprint that the workflow planned.
        processes: that do the work together; the first writes the manifest.

    Raises:
        UserError: settings or source changed since the workflow planned; another process runs the
            job; Python runs without docstrings; what the work itself raises.
    """
    require_docstrings()
    if fingerprint and fingerprint != job.path.name:
        raise UserError(
            f"settings or source changed since the workflow began (`pcqc {job.name}`); run it again"
        )
    with hold_folder(job) if processes.is_main else nullcontext():
        made = job.manifest.exists() and (job.marker.exists() or job.kind not in IN_STORE)
        if all(processes.gather(made)):
            _make_whole(job, work, processes)
            if processes.is_main:
                verify(job.path)
                mark(job)
                accepted(job)
            return
        if processes.is_main:
            for other in job.needs:
                accepted(other)
            begin(job)
        processes.barrier()
        try:
            summary = work(job)
        except UserError:
            if processes.is_main:
                remove_if_empty(job)
            raise
        if processes.is_main:
            finish(job, summary or {})
            mark(job)


def _make_whole(job: Job, work: Callable[[Job], dict | None], processes: Processes) -> None:
    """Make what an archive left out of a result: the job runs once more, beside it."""
    again = replace(job, folder=job.folder / AGAIN)
    if any(processes.gather(bool(left_out(job.path)))):
        # Where it is made, a process was killed while it moved files from there.
        if not all(processes.gather(again.manifest.exists())):
            perform(again, work, processes=processes)
        if processes.is_main:
            try:
                adopt(job.path, again.path)
            except UserError:
                shutil.rmtree(again.folder)  # the next attempt, elsewhere, may have the same bytes
                raise
    if processes.is_main:
        shutil.rmtree(again.folder, ignore_errors=True)
    processes.barrier()


def _is_whole(job: Job) -> bool:
    """Whether a result is here with all that other jobs read of it."""
    return job.manifest.exists() and not is_archived(job)


def finish_restored(study: Study, shown: bool = True) -> Iterator[Job]:
    """Mark the restored results of a study as made, and make what follows from them; such jobs.

    Args:
        study: the study.
        shown: whether a report of its own is drawn too; a study's shows its replicates.
    """
    jobs = Jobs(study)
    for job in jobs.every():
        published = job.kind == "base" and study.models
        drawn = study.synthetic and (KINDS[job.kind].is_data or published)
        # Of a base model cases need the tokenizer alone, which an archive has.
        if drawn and all(
            _is_whole(n) or (n.kind == "base" and n.manifest.exists()) for n in job.needs
        ):
            yield run_job(study, job.kind, *job.arguments)
        elif _is_whole(job):
            mark(job)
    follow: list[tuple[str, ...]] = [
        ("mirror", name) for name, method in study.methods.items() if method.runs
    ]
    follow += [("collect",), ("lost_points_table",)]
    follow += [("peers",), ("report",), ("publish",)] if shown else []
    for kind, *arguments in follow:
        if kind == "lost_points_table" and not study.synthetic:
            continue
        job = jobs.job(kind, *arguments)
        peers = {name for other in job.needs for name in other.arguments[:1]} - {START, *RIVALS}
        if all(other.manifest.exists() for other in job.needs) and (kind != "peers" or peers):
            yield run_job(study, kind, *arguments)


def task_of(study: Study, job: Job) -> Task:
    """What a job's function is handed."""
    return Task(job.arguments, job.settings, input_paths(job), job.path, where_of(study, job))


def latest_task(study: Study, kind: str, *arguments: str) -> Task:
    """What a job's function would be handed, but the newest result of each input.

    To look at a study, which may have been edited since its results were made.
    """
    job = Jobs(study).job(kind, *arguments)
    newest = {
        name: source if isinstance(source, Path) else source.latest
        for name, source in job.inputs.items()
    }
    return Task(job.arguments, job.settings, newest, job.latest, where_of(study, job))


def placed(study: Study) -> Where:
    """The placement, servers and assumptions of a study, and the cases that it needs."""
    trained = [method for method in study.methods.values() if method.kind == "rl" and method.runs]
    least = max((study.rl_of(method).cases_per_update for method in trained), default=1)
    return Where(study.placement, study.servers, study.assumptions, least_cases=least)


def where_of(study: Study, job: Job) -> Where:
    """Where a job runs, with the cache that its method leaves room for."""
    where = placed(study)
    method = study.methods.get(job.arguments[0]) if job.arguments else None
    if study.placement and method and method.kind == "rl":
        tokens = cache_tokens(study, roles_beside(study, method))
        return replace(where, cache_tokens=tokens)
    return where


def rollout_task(study: Study, folder: Path) -> Task:
    """What holding consultations outside the workflow needs, with the newest models."""
    newest = {name: part.latest for name, part in Jobs(study).models().items()}
    return Task(
        (),
        SimpleNamespace(**rollouts(study)),
        newest,
        folder,
        placed(study),
    )


def _call(study: Study, job: Job, processes: Processes) -> dict | None:
    function = importlib.import_module(job.entries[0]).run
    task, kind = task_of(study, job), KINDS[job.kind]
    if kind.shared_out:
        return function(task, processes)
    return function(task, study) if kind.whole_study else function(task)
