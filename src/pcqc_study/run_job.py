"""Runs one job of a study: checks that it may, calls its function, writes its manifest."""

import importlib
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

from pcqc.models.folder import require_docstrings
from pcqc_base.errors import UserError
from pcqc_base.system.manifest import (
    accepted,
    begin,
    finish,
    hold_folder,
    mark,
    remove_if_empty,
    verify,
)
from pcqc_base.system.processes import SINGLE_PROCESS, Processes
from pcqc_base.task import Task, Where
from pcqc_gpu.planning.memory import cache_tokens, roles_beside
from pcqc_study.fingerprint import Job, input_paths
from pcqc_study.graph import Jobs
from pcqc_study.kinds import IN_STORE, KINDS
from pcqc_study.kinds.runs import rollouts
from pcqc_study.settings import Study


def run_job(
    study: Study,
    kind: str,
    *arguments: str,
    fingerprint: str | None = None,
    processes: Processes = SINGLE_PROCESS,
) -> Job:
    """Run a job of a study unless its result is there; the job. See `perform`."""
    job = Jobs(study).job(kind, *arguments)
    perform(job, lambda: _call(study, job, processes), fingerprint, processes)
    return job


def perform(
    job: Job,
    work: Callable[[], dict | None],
    fingerprint: str | None = None,
    processes: Processes = SINGLE_PROCESS,
) -> None:
    """Do a job's work unless its result is there, and write the manifest.

    Args:
        job: the job.
        work: writes the result's files; returns entries of the manifest.
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
            summary = work()
        except UserError:
            if processes.is_main:
                remove_if_empty(job)
            raise
        if processes.is_main:
            finish(job, summary or {})
            mark(job)


def mirror_some(study: Study, method: str, letters: Sequence[str]) -> None:
    """Mirror some runs of a method: those that this machine has of a study made in parts.

    Raises:
        UserError: the method has no run of such a letter; as of `perform`.
    """
    job = Jobs(study).job("mirror", method)
    for letter in letters:
        study.require_run(method, letter)
    inputs = {name: part for name, part in job.inputs.items() if name.split()[1] in letters}
    job = replace(job, inputs=inputs)
    perform(job, lambda: _call(study, job, SINGLE_PROCESS))


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
