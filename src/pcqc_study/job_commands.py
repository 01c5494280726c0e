"""The workflow's jobs as commands: `pcqc train` and the others that its rules call."""

import functools
import os
from typing import Any

import click

from pcqc_base.system.machine import hold_to_avx2
from pcqc_base.system.processes import leaving
from pcqc_study.fork_server import ask
from pcqc_study.job_kinds import KINDS, Kind
from pcqc_study.program import HELP, argument, option, pcqc, study_name

FINGERPRINT = option("--fingerprint DIGEST", "refuse to run with another than this one")
# What some kinds have beside their arguments.
OPTIONS = {
    "base": option("--download", "fetch what is missing from Hugging Face"),
}


def _run(kind: Kind, study: str, fingerprint: str | None, **given: Any) -> None:
    """Run a job of a study that is named.

    Args:
        given: the job's arguments, and options of its kind.
    """
    # Fine-tuning sets variables that libraries read where they are loaded.
    if kind.name != "sft" and (status := ask(kind.large)) is not None:
        raise click.exceptions.Exit(status)
    # Before torch is imported: threads that wait must not keep a core from other processes.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    os.environ.setdefault("GOMP_SPINCOUNT", "0")
    from pcqc_study.run_job import run_job
    from pcqc_study.study_file import load_study

    loaded = load_study(study)
    if loaded.synthetic:  # the clinic's results have the same bytes on most processors
        hold_to_avx2()
        os.environ["OMP_NUM_THREADS"] = "1" if loaded.placement else str(kind.threads)
    values = [given[name] for name in kind.arguments]
    if given.get("download"):
        from pcqc.models.pretrained import download

        for source in loaded.pretrained.values():
            if source.revision:
                download(source)
    if not kind.shared_out:
        run_job(loaded, kind.name, *values, fingerprint=fingerprint)
        return
    from pcqc_gpu.launch import join_job, launch, processes_wanted
    from pcqc_gpu.planning.checks import require_fit

    require_fit(loaded)
    if (count := processes_wanted(loaded)) > 1:
        same = ["--fingerprint", fingerprint] if fingerprint else []
        return launch([kind.name, study, *values, *same], count)
    processes = join_job(loaded)
    with leaving(processes):
        run_job(loaded, kind.name, *values, fingerprint=fingerprint, processes=processes)


def _command(kind: Kind) -> click.Command:
    command = click.Command(kind.name, help=kind.help, callback=functools.partial(_run, kind))
    options = [FINGERPRINT, OPTIONS[kind.name]] if kind.name in OPTIONS else [FINGERPRINT]
    for add in (study_name, *(argument(n, HELP[n]) for n in kind.arguments), *options):
        add(command)
    return command


for _kind in KINDS.values():
    pcqc.add_command(_command(_kind))
