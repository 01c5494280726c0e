"""What a run was made from, whether and why it would be made again, and what may stay as it is."""

from pcqc.errors import UserError
from pcqc.results.graph import Jobs
from pcqc.results.manifest import read_manifest, verify, write_manifest
from pcqc.results.recipe import Job, Recipe
from pcqc.study import Study
from pcqc.system.machine import now


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


def explain(study: Study, method: str, run: str) -> str:
    """A run's seed, recipe and totals, and of each job on its way whether it would run again.

    Raises:
        UserError: the run has not been made.
    """
    jobs = Jobs(study)
    own = jobs.run(method, run)
    if not any(job.folder.is_dir() for job in own):
        raise UserError(
            f"{study.name} has no {method} run {run} yet; make it with "
            f"`snakemake --cores all {method} --config study={study.name}`"
        )
    lines = [_heading(study, own[0])]
    for job in [*jobs.shared(), *own]:
        verb = "would run again" if job.latest.exists() else "would run"
        lines += [f"{job.name} {verb}: {reason}" for reason in why(job)]
        accepted = read_manifest(job.path)["also_for"] if job.manifest.exists() else {}
        if because := accepted.get(job.recipe.short):
            lines.append(f"{job.name} was accepted: {because}")
    current = all(job.manifest.exists() for job in [*jobs.shared(), *own])
    return "\n".join([*lines, "nothing would run again"] if current else lines)


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
        if other := [change for change in changes if not change.startswith("module ")]:
            raise UserError(f"{job.name}: {other[0]}: this makes another result; run it again")
        folder = job.latest.resolve()
        verify(folder)  # to write the manifest makes every file of the result older than it
        manifest = read_manifest(folder)
        note = f"{now()}: {because} ({'; '.join(changes)})"
        also_for = {**manifest["also_for"], job.recipe.short: note}
        write_manifest(folder, {**manifest, "also_for": also_for})
        lines.append(f"{job.name} accepted: {'; '.join(changes)}")
    return lines or ["nothing to accept: nothing would run again"]


def _heading(study: Study, job: Job) -> str:
    method, run = job.arguments
    lines = [f"{study.name} {method} run {run}: seed {study.seed(run)}"]
    if job.latest.exists():
        manifest = read_manifest(job.latest)
        made = job.latest.resolve().name
        lines.append(f"recipe {made}, commit {manifest['git_commit']}, {manifest['finished']}")
        if job.kind == "train":
            totals = manifest["totals"]
            lines[0] += f", {manifest['updates']} updates ({manifest['ended']})"
            lines.append(
                f"{totals['trajectories']} complete consultations, "
                f"{totals['device_seconds'] / 3600:.3f} device-hours"
            )
    return "\n".join(lines)
