"""What a run was made from: against today's settings and source, and against another run."""

from collections.abc import Mapping
from typing import Any

from pcqc.errors import UserError
from pcqc.system.machine import now
from pcqc.system.manifest import read_manifest, verify, write_manifest
from pcqc_study.fingerprint import Job, Recipe
from pcqc_study.graph import Jobs, latest
from pcqc_study.settings import Study


def earlier(job: Job) -> Recipe | None:
    """The recipe of the newest result of a job; None where nothing was finished."""
    link = job.latest
    return Recipe(**read_manifest(link)["recipe"]) if link.exists() else None


def why(job: Job) -> list[str]:
    """Why a job would run, a clause each; nothing where its result is there."""
    if job.manifest.exists():
        return []
    if job.path.is_dir():
        return ["it has not finished"]
    recipe = earlier(job)
    return recipe.changes(job.recipe) if recipe else ["it has not been made"]


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
        and by job `again`: the reasons for it to run; `accepted`: why it was declared valid.

    Raises:
        UserError: the run has not been made.
    """
    jobs = Jobs(study)
    own = jobs.run(method, run)
    require_made(study, method, run, own[0].kind)
    every = [*jobs.shared(), *own]
    accepted = {}
    for job in every:
        also_for = read_manifest(job.path)["also_for"] if job.manifest.exists() else {}
        if because := also_for.get(job.recipe.short):
            accepted[job.name] = because
    return {
        "run": f"{study.name} {method} run {run}",
        "seed": study.seed(run),
        **(about(read_manifest(own[0].latest)) if own[0].latest.exists() else {}),
        "again": {job.name: reasons for job in every if (reasons := why(job))},
        "accepted": accepted,
    }


def explained(data: dict[str, Any]) -> str:
    """What `explain` returned, in lines."""
    lines = [f"{data['run']}: seed {data['seed']}"]
    if "commit" in data:
        lines = [f"{lines[0]}, {in_words(data)}"]
    for job, reasons in data["again"].items():
        lines += [f"{job} would run: {reason}" for reason in reasons]
    lines += [f"{job} was accepted: {because}" for job, because in data["accepted"].items()]
    return "\n".join(lines if data["again"] else [*lines, "nothing would run again"])


def about(manifest: dict[str, Any]) -> dict[str, Any]:
    """Recipe, commit, time and totals of a finished result."""
    totals = manifest.get("totals")
    return {
        **({"recipe": Recipe(**manifest["recipe"]).short} if "recipe" in manifest else {}),
        "commit": manifest["git_commit"],
        **{name: manifest[name] for name in ("finished", "updates", "ended") if name in manifest},
        **({"consultations": totals["trajectories"]} if totals else {}),
        **({"device_hours": totals["device_seconds"] / 3600} if totals else {}),
    }


def in_words(about: Mapping[str, Any]) -> str:
    """What `about` returned, in a clause."""
    text = f"commit {about['commit'][:10]}"
    if "recipe" in about:
        text = f"recipe {about['recipe']}, {text}, {about['finished']}"
    if "ended" in about:
        text += f", {about['updates']} updates ({about['ended']})"
    if "consultations" in about:
        text += f", {about['consultations']:,} complete consultations"
        text += f", {about['device_hours']:.3f} device-hours"
    return text


def accept(study: Study, method: str, run: str, because: str) -> list[str]:
    """Declare a run's newest results still valid after an edit; what was accepted, a line each.

    Writes today's recipe into `also_for` of each manifest. Later runs then read the results as
    though nothing had changed.

    Raises:
        UserError: the run is not made, or a setting or an input changed: that is another run.
    """
    lines = []
    planned = Jobs(study)
    for before in [*planned.shared(), *planned.run(method, run)]:
        job = Jobs(study).job(before.kind, *before.arguments)  # its inputs may be accepted by now
        if job.manifest.exists():
            continue
        recipe = earlier(job)
        if recipe is None:
            if job.kind in ("train", "evaluate"):
                raise UserError(f"{job.folder}: holds nothing; only what is made can be accepted")
            continue
        changes = recipe.changes(job.recipe)
        settings = job.changed_settings(recipe.settings)
        serious = ("input ", *(f"setting {name}:" for name in settings))
        if other := [change for change in changes if change.startswith(serious)]:
            raise UserError(f"{job.name}: {other[0]}: this makes another result; run it again")
        folder = job.latest.resolve()
        verify(folder)  # to write the manifest makes every file of the result older than it
        manifest = read_manifest(folder)
        note = f"{now()}: {because} ({'; '.join(changes)})"
        also_for = {**manifest["also_for"], job.recipe.short: note}
        write_manifest(folder, {**manifest, "also_for": also_for})
        lines.append(f"{job.name} accepted: {'; '.join(changes)}")
    return lines or ["nothing to accept: nothing would run again"]
