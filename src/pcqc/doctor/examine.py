"""All lines of the doctor, and the verdict."""

import time
from collections.abc import Iterable

from pcqc.doctor.findings import Finding, tried
from pcqc.doctor.machine import machine
from pcqc.doctor.services import services
from pcqc.errors import UserError
from pcqc.jobs.launch import join_job, launch, processes_wanted
from pcqc.study import Study
from pcqc.system.processes import launched, shutdown


def examine(study: Study, name: str) -> None:
    """Print a line for each thing that the study needs here.

    Args:
        study: its placement says which processes take part in the trial.
        name: how the study was named to `pcqc`.

    Raises:
        UserError: a line is red.
    """
    start = time.perf_counter()
    if launched():
        red = _try_here(study)
    elif red := _shown(machine(study)) + _shown(services(study)):
        _shown([Finding("trial", "not tried before the red lines are mended", skipped=True)])
    elif (count := processes_wanted(study)) > 1:
        red = _shown([tried("trial", lambda: _in_processes(name, count))])
    else:
        red = _try_here(study)
    if red:
        lines = "1 line is" if red == 1 else f"{red} lines are"
        raise UserError(f"{lines} red; mend what they say, then run `pcqc doctor {name}` again")
    if not launched():
        print(f"ready for {study.name}, in {time.perf_counter() - start:.0f} s")


def _shown(findings: Iterable[Finding], silent: bool = False) -> int:
    """Print lines as they come; the number of red ones."""
    red = 0
    for finding in findings:
        if not silent:
            print(finding.line, flush=True)
        red += bool(finding.remedy)
    return red


def _in_processes(name: str, count: int) -> str:
    launch(["doctor", name], count)
    return f"{count} processes ended well"


def _try_here(study: Study) -> int:
    """The trial in this process, which may be one of several; the number of red lines.

    Raises:
        UserError: one of several has a red line; the launcher ends the others, who may wait for it.
    """
    from pcqc.doctor.trial import trial

    processes = join_job(study)
    red = 0
    for finding in trial(study, processes):
        red += _shown([finding], silent=not processes.is_main)
        if red and processes.count > 1:
            raise UserError(f"{finding.name}: {finding.measured}; {finding.remedy}")
    shutdown(processes)
    return red
