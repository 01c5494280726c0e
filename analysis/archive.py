"""The runs behind README and docs, in git: anyone can look at them and draw their tables again.

`results/archive/STUDY.tar.xz` holds results as they lie below `results/`: of each run its metrics,
validations, selection, predictions and dialogues on the development benchmark (no table or figure
asks for others), and what was continued and judged; of the base models their shapes, by which FLOPs
are counted. Weights, cases and all other dialogues are left out; manifests name them with their
SHA-256. What follows from runs is made where it is restored.
Equal results give equal bytes. A release carries more: see `analysis.bundle`.
"""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

from analysis.tar_files import packed
from pcqc.logged.updates import EVENTS, TIMES
from pcqc_base.errors import UserError, few
from pcqc_base.system.checkout import ROOT, git
from pcqc_base.system.files import write_atomic
from pcqc_base.system.manifest import (
    MANIFEST,
    checked,
    left_out,
    read_manifest,
    write_manifest,
)
from pcqc_study.fingerprint import Fingerprint, Job
from pcqc_study.graph import Jobs
from pcqc_study.job_kinds import CHECKPOINTS, KINDS
from pcqc_study.study_file import Study
from pcqc_study.study_file.replicates import replicates

RESULTS = Path("results")
ARCHIVES = ROOT / RESULTS / "archive"
MODELS = ("base", "sft")  # kinds of jobs whose results are models
WEIGHTS = ".safetensors"  # what is left of a base model is its shape, and what cases are read with
MOST = 6  # differing settings that are named; the rest is counted
ROWS = (EVENTS, TIMES, "losses")  # files of rows that are small


def write(study: Study, archives: Path = ARCHIVES, released: bool = True) -> list[Path]:
    """Write the archives of a study and of its replicates; their paths.

    Args:
        study: the study.
        archives: folder for them.
        released: whether each run must be of a commit that the repository has.

    Raises:
        UserError: a result is missing or altered, or was made from code that no commit has.
    """
    made = []
    for member in (study, *replicates(study)):
        jobs = made_jobs(member)
        if released:
            require_commits(jobs)
        files = [path for job in jobs for path in files_of(job, small(member, job))]
        content = packed({path.relative_to(RESULTS).as_posix(): path for path in files})
        made.append(archives / f"{member.name}.tar.xz")
        write_atomic(made[-1], content)
    return made


def made_jobs(study: Study) -> list[Job]:
    """The jobs that made cases, models and runs, in order; all else follows from their results.

    Raises:
        UserError: one has not made its result yet.
    """
    jobs = Jobs(study)
    every = jobs.shared()
    for method, run in jobs.runs():
        on_demand = study.method(method).on_demand
        if not on_demand or jobs.job("evaluate", method, run).manifest.exists():
            every += jobs.run(method, run)
    lost = jobs.lost_points() if study.synthetic else []
    for job in every:
        if not job.manifest.exists():
            raise UserError(
                f"{study.results}: `{job.name}` has not finished; "
                f"`make results STUDY={study.name}` makes it"
            )
    return [*every, *(job for job in lost if job.manifest.exists())]


def small(study: Study, job: Job) -> Callable[[str], bool]:
    """Tells of a file of a job's result whether an archive holds it: no case, model or dialogue.

    Dialogues of the development benchmark alone are held.
    """
    if KINDS[job.kind].is_data:
        return lambda name: False
    rows = (*ROWS, *([study.development] if job.kind == "evaluate" else []))

    def is_small(name: str) -> bool:
        path = PurePosixPath(name)
        if job.kind in MODELS and len(path.parts) > 1:
            return job.kind == "base" and path.suffix != WEIGHTS
        if name.startswith(f"{CHECKPOINTS}/"):
            return False
        return path.suffix != ".jsonl" or path.stem in rows

    return is_small


def files_of(job: Job, kept: Callable[[str], bool]) -> Iterator[Path]:
    """Checked files of a job's result, its manifest last; those that are not here are left out."""
    lacking = left_out(job.path)
    for name in read_manifest(job.path)["files"]:
        if kept(name) and name not in lacking:
            yield checked(job.path / name)
    yield job.path / MANIFEST


def require_alike(study: Study, unpacked: Path) -> None:
    """Raise UserError where results were made with other settings or raw files than a study's.

    A run that the study has got since, or has no more, does not matter.

    Args:
        study: the study.
        unpacked: folder of the results of studies, as `results/` has them.
    """
    unlike = []
    for job in Jobs(study).every():
        for folder in (unpacked / job.folder.relative_to(RESULTS)).glob("*/"):
            before = Fingerprint.of(read_manifest(folder))
            unlike += [f"{job.name}: {key}" for key in job.changed_settings(before.settings)]
            raw = [name for name, source in job.inputs.items() if isinstance(source, Path)]
            unlike += [
                f"{job.name}: {name}"
                for name in raw
                if before.inputs.get(name) != job.fingerprint.inputs[name]
            ]
    if unlike:
        raise UserError(
            f"{study.name}: was made with other settings ({few(sorted(unlike), MOST)}); run the "
            f"study again: `make results STUDY={study.name}`"
        )


def accept_restored(study: Study, folders: list[Path]) -> None:
    """Declare restored results equal to what today's code would make of the same settings.

    Args:
        study: the study.
        folders: results that were restored, of this study and of others.
    """
    for job in Jobs(study).every():
        for folder in folders:
            if folder.parent != job.folder or folder.name == job.fingerprint.short:
                continue
            manifest = read_manifest(folder)
            changes = Fingerprint.of(manifest).changes(job.fingerprint)
            note = f"restored from an archive, made with the same settings ({few(changes, MOST)})"
            also_for = {**manifest["also_for"], job.fingerprint.short: note}
            write_manifest(folder, {**manifest, "also_for": also_for})


def require_commits(jobs: list[Job]) -> None:
    """Raise UserError where a result was made from code that is not in the repository."""
    of_commits: dict[str, str] = {}
    for job in jobs:
        of_commits.setdefault(read_manifest(job.path)["git_commit"], job.name)
    for commit, name in of_commits.items():
        if problem := without_commit(commit):
            raise UserError(f"`{name}` was made at {commit}, {problem}; commit, and make it again")


def without_commit(commit: str) -> str:
    """Why nobody can check out the code of a result's commit; empty where one can."""
    if commit.endswith("+changes"):
        return "with changes that no commit has"
    try:
        git("cat-file", "-e", f"{commit}^{{commit}}")
    except (OSError, subprocess.SubprocessError):
        return "which is no commit of this repository"
    return ""
