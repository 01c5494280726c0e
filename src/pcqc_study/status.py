"""Where a study stands, at any moment and from another terminal: nothing is written or started."""

import re
import shutil
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from pcqc_base.errors import UserError
from pcqc_base.system.checkout import ROOT
from pcqc_base.system.locks import held
from pcqc_base.system.manifest import left_out, lock, read_manifest
from pcqc_base.system.progress import duration
from pcqc_study.check_results import lacks_runs
from pcqc_study.explain import why
from pcqc_study.fingerprint import Job
from pcqc_study.graph import Jobs, log_path
from pcqc_study.study_file import Study, load_study

STATES = ("running", "failed", "stale", "to do", "done")
STYLES = {"running": "cyan", "failed": "bold red", "stale": "yellow", "to do": "dim"}
MOST = 12  # lines of one state, beyond which the rest is counted
# Of Snakemake's log.
_JOB = re.compile(r"pcqc_study\.cli (.+?) --fingerprint")
_LOG = re.compile(r"^    log: (.+?)(?: \(check log|$)", re.MULTILINE)
_STATUS = r"(?:died with <Signals\.(?P<signal>\w+)|non-zero exit status (?P<status>\d+))"
LITTLE = 1 << 20  # bytes; a disk with fewer free has no room for a message
STOPPED = ("KeyboardInterrupt", "pcqc: stopped")  # how a job that Ctrl-C ended says so
_CLOCK = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) (.*)")


@dataclass(frozen=True)
class JobState:
    """One job of a study.

    Attributes:
        job: the job.
        state: one of `STATES`; `stale`: it was made with another fingerprint.
        reason: why it is stale, how it failed, or how far it is.
    """

    job: Job
    state: str
    reason: str = ""


def status(study: Study, states: list[JobState] | None = None) -> dict[str, Any]:
    """Where a study stands.

    Args:
        study: the study.
        states: its jobs', where the caller has looked already.

    Returns:
        `study`; `jobs`: how many; by state how many of them; `archived`: how many of the done were
        restored without weights, cases or dialogues; `seconds_left` of work, one job at a
        time; `workflow_running`; `unfinished`: state, job and reason of each job that is not done;
        `report`: where it is, or None; `report_current`: whether it has all of today's results.
    """
    states = job_states(study) if states is None else states
    counts = {name: sum(state.state == name for state in states) for name in STATES}
    report = Jobs(study).job("report")
    return {
        "study": study.name,
        "jobs": len(states),
        **counts,
        "archived": sum(bool(left_out(s.job.path)) for s in states if s.state == "done"),
        "seconds_left": round(work_left(study, states)),
        "workflow_running": runs(study),
        "unfinished": [
            {"state": state.state, "job": state.job.name, "reason": state.reason}
            for state in sorted(states, key=lambda state: STATES.index(state.state))
            if state.state != "done"
        ],
        "report": str(study.results / "report.html") if report.latest.exists() else None,
        "report_current": report.manifest.exists(),
    }


def runs(study: Study) -> bool:
    """Whether the study's workflow is running."""
    return held(study.results / ".lock")


def summary(data: dict[str, Any]) -> str:
    """What `status` returned, in one line."""
    parts = [f"{data['done']} of {data['jobs']} jobs done"]
    parts += [f"{data[name]} {name}" for name in STATES[:-1] if data[name]]
    line = f"{data['study']}: {', '.join(parts)}"
    if left := data["seconds_left"]:
        line += f"; about {duration(left)} of work left, one job at a time"
    return line


def told(data: dict[str, Any]) -> str:
    """What `status` returned, in lines."""
    lines = [summary(data)]
    if data["workflow_running"]:
        lines.append("the workflow is running")
    for name in STATES[:-1]:
        jobs = [job for job in data["unfinished"] if job["state"] == name]
        lines += [
            f"{name:8} {job['job']}{': ' * bool(job['reason'])}{job['reason']}"
            for job in jobs[:MOST]
        ]
        if len(jobs) > MOST:
            lines.append(f"{name:8} and {len(jobs) - MOST} more")
    if data["archived"]:
        lines.append(f"archived {data['archived']} of the done, without weights or dialogues")
    old = "" if data["report_current"] else ", older than a result"
    made = f"{data['report']}{old}" if data["report"] else "not made yet"
    return "\n".join([*lines, f"report   {made}"])


def stale(study: Study) -> list[str]:
    """What would run again for a reason of its own, by reason; for `snakemake -n`."""
    names: dict[str, list[str]] = {}
    for state in job_states(study):
        if state.state == "stale" and not state.reason.startswith("after "):
            names.setdefault(state.reason, []).append(state.job.name)
    return [f"stale ({reason}): {', '.join(jobs)}" for reason, jobs in names.items()]


def lost(study: Study) -> list[str]:
    """A line where MLflow's store has lost the study's runs; for `snakemake -n`."""
    jobs = list(Jobs(study).all())
    mirrored = any(job.manifest.exists() for job in jobs if job.kind == "mirror")
    gone = "MLflow's store lacks runs of the study: all would be mirrored again"
    return [gone] if mirrored and lacks_runs(study, jobs) else []


def failures(study: Study, since: float, workflow: str) -> list[str]:
    """Lines on the jobs that have failed since a time (seconds since 1970), and how to go on.

    Args:
        study: the study.
        since: when the workflow began.
        workflow: what Snakemake's log says; a job that was killed left no line of its own.
    """
    logs = sorted((study.results / "logs").rglob("*.log"))
    errors = [error for path in logs if path.stat().st_mtime >= since and (error := _error(path))]
    ended = _ended(workflow)
    lines = [f"pcqc: error: {error}" for error in dict.fromkeys([*errors, *ended])]
    if ended or not errors:
        lines.append("pcqc: stopped; run the same command again: it goes on where it stopped")
    return lines


def _ended(workflow: str) -> list[str]:
    """How each job ended that said nothing itself: `train clinic pcqc A was ended by SIGKILL`."""
    lines = []
    for block in re.findall(r"^Error in rule .*\n(?:    .*\n)+", workflow, re.MULTILINE):
        job, log = (found and found[1] for found in (_JOB.search(block), _LOG.search(block)))
        if not job or (log and _error(Path(log))):
            continue
        how = re.search(rf"{re.escape(job)} --fingerprint .* {_STATUS}", workflow)
        name = how["signal"] or "" if how else ""
        if how and int(how["status"] or 0) > 128:
            name = signal.Signals(int(how["status"]) - 128).name
        if name and name != "SIGINT":
            memory = " (often for want of memory)" if name == "SIGKILL" else ""
            lines.append(f"`pcqc {job}` was ended by {name}{memory}; its log is {log}")
        elif not name:
            full = log and shutil.disk_usage(Path(log).parent).free < LITTLE
            remedy = ", whose disk is full: free some space and run again" * bool(full)
            lines.append(f"`pcqc {job}` ended without a message; its log is {log}{remedy}")
    return lines


def status_of_all() -> dict[str, str]:
    """Study -> one line, for each that has results here.

    Raises:
        UserError: none has.
    """
    lines = {}
    for path in sorted((ROOT / "config" / "studies").glob("*.yaml")):
        if (Path("results") / path.stem).is_dir():
            try:
                lines[path.stem] = summary(status(load_study(path.stem)))
            except UserError as error:
                lines[path.stem] = f"{path.stem}: {error}"
    if not lines:
        raise UserError("no study has results here; `make results` makes the clinic's")
    return lines


def job_states(study: Study) -> list[JobState]:
    """Every job of `snakemake all`, and of the methods on demand that were begun."""
    states: dict[str, JobState] = {}
    jobs = list(Jobs(study).all())
    lost = lacks_runs(study, jobs)
    for job in jobs:
        unfinished = [j for j in job.needs if j.name in states and states[j.name].state != "done"]
        state = _state(study, job, unfinished[-1].name if unfinished else "")
        if lost and job.kind == "mirror" and state.state == "done":
            state = JobState(job, "stale", "MLflow's store lacks the study's runs")
        states[job.name] = state
    return list(states.values())


def _state(study: Study, job: Job, before: str) -> JobState:
    """A job's state; `before` is a job that has to run first."""
    if held(lock(job.path)):
        return JobState(job, "running", _last_line(_log(study, job)))
    if job.manifest.exists():
        return JobState(job, "done")
    if error := _error(_log(study, job)):
        return JobState(job, "failed", error)
    if not job.latest.exists():
        return JobState(job, "to do")
    # A report is told all settings of the study: each is some earlier job's reason too.
    follows = ("input ", "setting study.") if before else ()
    reasons = [reason for reason in why(job) if not reason.startswith(follows)]
    more = [f"and {len(reasons) - 2} more"] if len(reasons) > 2 else []
    return JobState(job, "stale", "; ".join([*reasons[:2], *more]) or f"after {before}")


def work_left(study: Study, states: list[JobState]) -> float:
    """Seconds that the jobs which are not done would take.

    A job is taken to last as long as jobs of its kind and method, else of its kind, have lasted.
    """
    took = lasted(state.job for state in states if state.state == "done")
    left = 0.0
    for state in states:
        if state.state != "done":
            job = state.job
            like = took.get((job.kind, *job.arguments[:1])) or took.get((job.kind,)) or [0.0]
            since = _since_start(_log(study, job)) if state.state == "running" else 0.0
            left += max(0.0, sum(like) / len(like) - since)
    return left


def lasted(jobs: Iterable[Job]) -> dict[tuple[str, ...], list[float]]:
    """Kind, and kind and method -> seconds that each finished job of them took."""
    took: dict[tuple[str, ...], list[float]] = {}
    for job in jobs:
        for like in {(job.kind,), (job.kind, *job.arguments[:1])}:
            took.setdefault(like, []).append(_seconds(job))
    return took


def _log(study: Study, job: Job) -> Path:
    return log_path(study, job.kind, *job.arguments, job.path.name)


def _lines(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    return [line for line in text.splitlines() if line.strip()]


def _last_line(path: Path) -> str:
    """The last progress line that the job printed, without its time."""
    messages = [match[2] for line in _lines(path) if (match := _CLOCK.match(line))]
    return messages[-1] if messages else "it has begun"


def _error(path: Path) -> str:
    """The line with which the job ended where it failed; empty where it did not."""
    lines = _lines(path)
    errors = [line for line in lines if line.startswith("pcqc: error: ")]
    if errors:
        return errors[-1].removeprefix("pcqc: error: ")
    failed = any(line.startswith("Traceback ") for line in lines)
    return f"{lines[-1]} ({path})" if failed and lines[-1] not in STOPPED else ""


def _since_start(path: Path) -> float:
    """Seconds since the job first printed how far it is."""
    for line in _lines(path):
        if match := _CLOCK.match(line):
            start = datetime.strptime(match[1], "%Y-%m-%d %H:%M:%S").timestamp()
            return max(0.0, time.time() - start)
    return 0.0


def _seconds(job: Job) -> float:
    """How long a finished job took."""
    manifest = read_manifest(job.path)
    begun, finished = (datetime.fromisoformat(manifest[key]) for key in ("begun", "finished"))
    return (finished - begun).total_seconds()
