"""Where a study stands, at any moment and from another terminal: nothing is written or started."""

import re
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from pcqc.errors import UserError
from pcqc.jobs.explain import ACTIONS, why
from pcqc.study import ROOT, Study, load_study
from pcqc.study.job_outputs import JobOutput, steps
from pcqc.study.paths import Paths
from pcqc.system.files import held

STATES = ("running", "failed", "stale", "to do", "done")
MOST = 12  # lines of one state, beyond which the rest is counted
_CLOCK = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) (.*)")


@dataclass(frozen=True)
class Job:
    """One job of a study.

    Attributes:
        product: what it makes.
        state: one of `STATES`.
        reason: why it is stale, how it failed, or how far it is.
    """

    product: JobOutput
    state: str
    reason: str = ""


def status(study: Study) -> str:
    """What is done, running, stale and why, failed, and how much work is left, in lines."""
    jobs = job_states(study)
    count = {state: sum(job.state == state for job in jobs) for state in STATES}
    parts = [f"{count['done']} of {len(jobs)} jobs done"]
    parts += [f"{count[state]} {state}" for state in STATES[:-1] if count[state]]
    line = f"{study.name}: {', '.join(parts)}"
    if left := work_left(jobs):
        line += f"; about {_duration(left)} of work left, one job at a time"
    going = "the workflow is running" if held(study.results / ".lock") else ""
    lines = [line, *([going] if going else [])]
    for state in STATES[:-1]:
        found = [job for job in jobs if job.state == state]
        for job in found[:MOST]:
            lines.append(f"{state:8} {_said(job)}")
        if len(found) > MOST:
            lines.append(f"{state:8} and {len(found) - MOST} more")
    return "\n".join([*lines, _report(study, jobs)])


def stale(study: Study) -> list[str]:
    """What would run again for a reason of its own, by reason; for `snakemake -n`."""
    found: dict[str, list[str]] = {}
    for job in job_states(study):
        if job.state == "stale" and not job.reason.startswith("after "):
            found.setdefault(job.reason, []).append(job.product.name)
    return [f"stale ({reason}): {', '.join(names)}" for reason, names in found.items()]


def failures(study: Study, since: float) -> list[str]:
    """Error lines of the jobs that have failed since a time (seconds since 1970)."""
    logs = sorted((study.results / "logs").rglob("*.log"))
    errors = [_error(path) for path in logs if path.stat().st_mtime >= since]
    return [f"pcqc: error: {error}" for error in dict.fromkeys(errors) if error]


def status_of_all() -> str:
    """One line for each study that has results here."""
    lines = []
    for path in sorted((ROOT / "config" / "studies").glob("*.yaml")):
        if (Path("results") / path.stem).is_dir():
            try:
                lines.append(status(load_study(path.stem)).splitlines()[0])
            except UserError as error:
                lines.append(f"{path.stem}: {error}")
    return "\n".join(lines) or "no study has results here; `make results` makes the clinic's"


def job_states(study: Study) -> list[Job]:
    """Every job of the methods that `snakemake all` makes, and of ablations that were begun."""
    known: dict[str, Job] = {}
    seen: dict[str, Job] = {}
    for name, method in study.methods.items():
        for run in method.runs:
            way = list(steps(study, name, run))
            begun = any(one.path.exists() for one in way if one.run)
            if method.on_demand and not begun:
                continue
            again = ""
            for one in way:
                if (key := str(one.manifest)) not in seen:
                    seen[key] = _state(one, again)
                job = seen[key]
                # A job that makes several models is as far as the last of them.
                if one.name not in known or known[one.name].state == "done":
                    known[one.name] = job
                if job.state != "done" and not again:
                    again = ACTIONS[one.job]
    return list(known.values())


def _state(one: JobOutput, again: str) -> Job:
    """A job's state; `again` is a job before it that has to run first."""
    if held(Paths.of(one.study).lock(one.name)):
        return Job(one, "running", _last_line(log(one)))
    made, reasons = one.manifest.exists(), why(one)
    if not made and (error := _error(log(one))):
        return Job(one, "failed", error)
    if made and (reasons or again):
        more = [f"and {len(reasons) - 2} more"] if len(reasons) > 2 else []
        return Job(one, "stale", "; ".join([*reasons[:2], *more]) or f"after {again}")
    return Job(one, "done" if made else "to do")


def work_left(jobs: list[Job]) -> float:
    """Seconds that the jobs which are not done would take, as those that are done took."""
    took: dict[str, list[float]] = {}
    for job in jobs:
        if job.product.manifest.exists() and (seconds := _seconds(job.product)):
            for kind in (job.product.job, f"{job.product.job} {job.product.method}"):
                took.setdefault(kind, []).append(seconds)
    left = 0.0
    for job in jobs:
        if job.state != "done":
            own = f"{job.product.job} {job.product.method}"
            known = took.get(own) or took.get(job.product.job) or [0.0]
            gone = _since_start(log(job.product)) if job.state == "running" else 0.0
            left += max(0.0, sum(known) / len(known) - gone)
    return left


def log(one: JobOutput) -> Path:
    """What the workflow keeps of the job's messages."""
    logs = one.study.results / "logs"
    shared = {"clinic": "data", "pretrain": "base", "models": "base", "sft": "sft"}
    if one.job in shared:
        return logs / f"{shared[one.job]}.log"
    if one.job == "grounding":
        return logs / "continuation" / f"{one.method}-{one.run}-grounding.log"
    return logs / one.job / f"{one.method}-{one.run}.log"


def _lines(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    return [line for line in text.splitlines() if line.strip()]


def _last_line(path: Path) -> str:
    """How far the job is, by its own word."""
    found = [match[2] for line in _lines(path) if (match := _CLOCK.match(line))]
    return found[-1] if found else "it has begun"


def _error(path: Path) -> str:
    """The line with which the job ended where it failed; empty where it did not."""
    lines = _lines(path)
    said = [line for line in lines if line.startswith("pcqc: error: ")]
    if said:
        return said[-1].removeprefix("pcqc: error: ")
    return f"{lines[-1]} ({path})" if any(x.startswith("Traceback ") for x in lines) else ""


def _start(path: Path) -> float | None:
    """When the job first said how far it is, in seconds since 1970."""
    for line in _lines(path):
        if match := _CLOCK.match(line):
            return datetime.strptime(match[1], "%Y-%m-%d %H:%M:%S").timestamp()
    return None


def _since_start(path: Path) -> float:
    start = _start(path)
    return max(0.0, time.time() - start) if start else 0.0


def _seconds(one: JobOutput) -> float:
    """How long a finished job took; 0 where its log does not say."""
    start = _start(log(one))
    return max(0.0, one.manifest.stat().st_mtime - start) if start else 0.0


def _said(job: Job) -> str:
    return f"{job.product.name}{f': {job.reason}' if job.reason else ''}"


def _report(study: Study, jobs: list[Job]) -> str:
    path = study.results / "report.html"
    if not path.exists():
        return "report   not made yet"
    made = [one.stat().st_mtime for j in jobs if (one := j.product.manifest).exists()]
    old = any(moment > path.stat().st_mtime for moment in made)
    return f"report   {path}{', older than a result' if old else ''}"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    if seconds < 5400:
        return f"{round(seconds / 60)} min"
    return f"{seconds / 3600:.1f} h"
