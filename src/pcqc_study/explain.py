"""What a run was made from: against today's settings and source, and against another run."""

from collections.abc import Mapping
from typing import Any

from pcqc_base.errors import UserError
from pcqc_base.system.machine import now
from pcqc_base.system.manifest import read_manifest, verify, write_manifest
from pcqc_study.fingerprint import Fingerprint, Job, upstream
from pcqc_study.graph import Jobs, latest
from pcqc_study.study_file import Study


def earlier(job: Job) -> Fingerprint | None:
    """The fingerprint of the newest result of a job; None where nothing was finished."""
    link = job.latest
    return Fingerprint.of(read_manifest(link)) if link.exists() else None


def why(job: Job) -> list[str]:
    """Why a job would run, a clause each; nothing where its result is there."""
    if job.manifest.exists():
        return []
    if job.path.is_dir():
        return ["it has not finished"]
    fingerprint = earlier(job)
    return fingerprint.changes(job.fingerprint) if fingerprint else ["it has not been made"]


def require_made(study: Study, method: str, run: str, kind: str) -> None:
    """Raise UserError unless a job of a run was ever begun; it names the command that does it."""
    study.require_run(method, run)
    if not latest(study, kind, method, run).parent.is_dir():
        raise UserError(
            f"{study.name} has no {method} run {run} yet; make it with "
            f"`snakemake --cores all {method} --config study={study.name}`"
        )


def explain(study: Study, method: str, run: str) -> dict[str, Any]:
    """What a run was made from, and of each job on its way whether and why it would run again.

    Returns:
        `run`, its `seed`, what `about` says of its newest training (of Shared SFT: its selection),
        and by job `again`: the reasons for it to run; `accepted`: why it was declared valid;
        `beside`: modules around it that changed since and are taken to decide no number.

    Raises:
        UserError: the run has not been made.
    """
    jobs = Jobs(study)
    own = jobs.run(method, run)
    require_made(study, method, run, own[0].kind)
    every = upstream(own)
    accepted, beside = {}, {}
    for job in every:
        if not job.manifest.exists():
            continue
        manifest = read_manifest(job.path)
        if because := manifest["also_for"].get(job.fingerprint.short):
            accepted[job.name] = because
        if changed := [n for n, d in job.beside.items() if manifest["beside"].get(n) != d]:
            beside[job.name] = changed
    return {
        "run": f"{study.name} {method} run {run}",
        "seed": study.seed(run),
        **(about(read_manifest(own[0].latest)) if own[0].latest.exists() else {}),
        "again": {job.name: reasons for job in every if (reasons := why(job))},
        "accepted": accepted,
        "beside": beside,
    }


def explained(data: dict[str, Any]) -> str:
    """What `explain` returned, in lines."""
    lines = [f"{data['run']}: seed {data['seed']}"]
    if "commit" in data:
        lines = [f"{lines[0]}, {in_words(data)}"]
    for job, reasons in data["again"].items():
        lines += [f"{job} would run: {reason}" for reason in reasons]
    lines += [f"{job} was accepted: {because}" for job, because in data["accepted"].items()]
    lines += [
        f"{job}: warning: edited since, and taken to decide no number: {', '.join(modules)}"
        for job, modules in data["beside"].items()
    ]
    return "\n".join(lines if data["again"] else [*lines, "nothing would run again"])


def about(manifest: dict[str, Any]) -> dict[str, Any]:
    """Fingerprint, commit, time and totals of a finished result."""
    totals = manifest.get("totals")
    return {
        "fingerprint": Fingerprint.of(manifest).short,
        "commit": manifest["git_commit"],
        **{name: manifest[name] for name in ("finished", "updates", "ended") if name in manifest},
        **({"consultations": totals["trajectories"]} if totals else {}),
        **({"device_hours": totals["device_seconds"] / 3600} if totals else {}),
    }


def in_words(about: Mapping[str, Any]) -> str:
    """What `about` returned, in a clause."""
    text = f"fingerprint {about['fingerprint']}, commit {about['commit'][:10]}, {about['finished']}"
    if "ended" in about:
        text += f", {about['updates']} updates ({about['ended']})"
    if "consultations" in about:
        text += f", {about['consultations']:,} complete consultations"
        text += f", {about['device_hours']:.3f} device-hours"
    return text


def accept(study: Study, method: str, run: str, because: str) -> list[str]:
    """Declare newest results still valid after an edit; what was accepted, a line each.

    Writes today's fingerprint into `also_for` of each manifest. Later runs then read the results as
    though nothing had changed.

    Args:
        study: the study.
        method, run: whose results, with those that they were made from; empty: all of the study's.
        because: why they are still valid.

    Raises:
        UserError: no reason is given, the run is not made, or a setting or an input changed: that
            is another run.
    """
    if not because.strip():
        raise UserError("--because: empty; say why the results are still valid")
    planned = Jobs(study)
    jobs = [*planned.shared(), *planned.run(method, run)] if method else list(planned.all())
    lines = []
    for before in jobs:
        job = Jobs(study).job(before.kind, *before.arguments)  # its inputs may be accepted by now
        if job.manifest.exists():
            continue
        fingerprint = earlier(job)
        if fingerprint is None:
            if method and job.kind in ("train", "evaluate"):
                raise UserError(f"{job.folder}: holds nothing; only what is made can be accepted")
            continue
        lines.append(f"{job.name} accepted on trust: {_accept(job, fingerprint, because)}")
    return lines or ["nothing to accept: nothing would run again"]


def _accept(job: Job, fingerprint: Fingerprint, because: str) -> str:
    """Declare the newest result of a job to be today's; what changed since it was made."""
    changes = fingerprint.changes(job.fingerprint)
    settings = job.changed_settings(fingerprint.settings)
    serious = ("input ", *(f"setting {name}:" for name in settings))
    if other := [change for change in changes if change.startswith(serious)]:
        raise UserError(f"{job.name}: {other[0]}: this makes another result; run it again")
    folder = job.latest.resolve()
    verify(folder)  # to write the manifest makes every file of the result older than it
    manifest = read_manifest(folder)
    note = f"{now()}: {because} ({'; '.join(changes)})"
    also_for = {**manifest["also_for"], job.fingerprint.short: note}
    write_manifest(folder, {**manifest, "also_for": also_for})
    return "; ".join(changes)
