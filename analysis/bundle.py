"""A study for a release: its results as they lie here, with what archives leave out.

`results/bundle/STUDY/` holds parts, a card, SHA-256 sums and the record of `pcqc vary`. The parts
have the results of the study and of its replicates: every run's training (consultations, candidate
groups, metrics, the selected checkpoint), selection, evaluation with its dialogues and continuation
study; the fine-tuned models; and the report with its tables and figures. Cases stay out: a clinic
draws them again, others have owners. Equal results give equal bytes.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from analysis import archive
from analysis.archive import RESULTS
from analysis.report import show
from analysis.tar_files import (
    AGAIN,
    LIMIT,
    packed,
    place_result,
    refuse_others,
    staged,
    unpack,
    whole_results,
)
from pcqc_base.errors import UserError
from pcqc_base.system.checkout import ROOT, git_commit
from pcqc_base.system.files import read_bytes, read_json, sha256_file, write_atomic
from pcqc_base.system.json_shapes import CollectedRuns
from pcqc_base.system.manifest import UNLIKE, checked, left_out, read_manifest
from pcqc_base.system.terminal import show as show_line
from pcqc_study.fingerprint import Job
from pcqc_study.graph import Jobs, latest
from pcqc_study.job_kinds import CHECKPOINTS, KINDS
from pcqc_study.study_file import Study
from pcqc_study.study_file.load import variations
from pcqc_study.study_file.replicates import replicates
from pcqc_study.study_file.vary import strangers

BUNDLES = RESULTS / "bundle"
# After the study's name: releases have no folders.
SUMS, CARD, VARIATIONS = ".SHA256SUMS", ".README.md", ".variations.yaml"
_SUM = re.compile(r"(?P<sha256>[0-9a-f]{64})  (?P<name>[A-Za-z0-9_][A-Za-z0-9_.-]*)")

TEXT = """# {title}: results

Results of study `{name}` of PCQC, privileged counterfactual question credit for multi-turn medical
dialogue: predictions, dialogues, candidate questions with their credit, metrics, manifests, the
selected checkpoint of every run, tables, figures and report.

| file | bytes | what it holds |
|---|---:|---|
{files}

- **How it was made.** `make results STUDY={name}` and `make bundle STUDY={name}`, at commit
  `{commit}`.
  The manifest of each result has its settings, source, commit and machine.
- **Licence.** Apache-2.0, as the repository.{owners}
- **Size.** {size:.1f} MB.
- **To restore.** In a clone of that commit, with this folder at FOLDER:
  `pcqc restore {name} --from FOLDER`. Then `pcqc report {name}` draws tables, figures and report
  again, and `pcqc consult`, `pcqc answer` and `import pcqc` read every run. Without a clone,
  `sha256sum --check {sums}` and `tar -xf` do.
{left_out}"""
OWNERS = """ Texts of cases, which the
  dialogues quote, are their owners' (docs/data.md)."""


def write(study: Study, bundles: Path = BUNDLES, released: bool = True) -> Path:
    """Write the bundle of a finished study; its folder. See `archive.write`.

    Raises:
        UserError: as there; or the report is older than a result, or shows other numbers; or the
            study was restored, and lacks what a bundle holds.
    """
    members = (study, *replicates(study))
    jobs = {member.name: archive.made_jobs(member) for member in members}
    if released:
        archive.require_commits([job for of_member in jobs.values() for job in of_member])
    files = [path for m in members for job in jobs[m.name] for path in _files(m, job)]
    files += archive.files_of(_report(study), lambda name: True)
    too_large = [path for path in files if path.stat().st_size > LIMIT]
    folder, made = bundles / study.name, []
    for member in members:
        if (recorded := _recorded(member)).exists():
            made.append(folder / f"{member.name}{VARIATIONS}")
            write_atomic(made[-1], recorded.read_bytes())
    parts = _parts([path for path in files if path not in too_large])
    for number, part in enumerate(parts, start=1):
        made.append(folder / f"{study.name}.results-{number}.tar.xz")
        content = packed({path.relative_to(RESULTS).as_posix(): path for path in part})
        write_atomic(made[-1], content)
    made.append(folder / f"{study.name}{CARD}")
    write_atomic(made[-1], _card(study, made[:-1], too_large))
    sums = "".join(f"{sha256_file(path)}  {path.name}\n" for path in made)
    made.append(folder / f"{study.name}{SUMS}")
    write_atomic(made[-1], sums)
    for old in set(folder.iterdir()) - set(made):  # parts of a larger bundle
        old.unlink()
    return folder


def restore(study: Study, folder: Path = archive.ARCHIVES) -> list[Path]:
    """Unpack a bundle, or the archives of a study and of its replicates, among the results.

    What is there already stays, so that a second call completes one that was stopped. A result that
    today's code would name otherwise is declared equal, on trust: see `accept_restored`.

    Returns:
        The folders of the results.

    Raises:
        UserError: a file is damaged, was made with other settings or is no part of a result, a
            variation names something to run, or there are other runs; nothing was changed.
    """
    members = (study, *replicates(study))
    parts = _sound_parts(study, folder) or [_archive(member, folder) for member in members]
    varied = _variations(study, folder)
    with staged(study.results, f"restoring '{study.name}'") as stage:
        unpacked = stage / RESULTS
        unpacked.mkdir()
        for part in parts:
            unpack(part, unpacked)
        results = whole_results(unpacked, {member.name for member in members})
        for member in members:
            archive.require_alike(member, unpacked)
        for result in results:
            refuse_others(unpacked / result, RESULTS / result)
        restored = [RESULTS / result for result in results]
        for path, content in varied.items():
            write_atomic(path, content)
            restored.append(path)
        for result in results:
            place_result(unpacked / result, RESULTS / result)
    for member in members:
        archive.accept_restored(member, restored)
    if (report := latest(study, "report")).exists():
        show(study, report)
    return restored


def _archive(study: Study, folder: Path) -> Path:
    """The archive of a study in a folder."""
    path, name = folder / f"{study.name}.tar.xz", study.name
    if not path.exists():
        raise UserError(
            f"{path}: no archive of '{name}'; `pcqc restore {name} --from FOLDER` reads another "
            f"folder, and where the study was run `pcqc archive {name}` writes one"
        )
    return path


def _sound_parts(study: Study, folder: Path) -> list[Path]:
    """Parts of a bundle, none of archives alone, once every file is the one that was released."""
    listed = folder / f"{study.name}{SUMS}"
    if not listed.exists():
        return []
    lines = read_bytes(listed).decode(errors="replace").splitlines()
    pairs = [_SUM.fullmatch(line) for line in lines]
    if not all(pairs):
        raise UserError(f"{listed}: damaged; {AGAIN}")
    sums = {pair["name"]: pair["sha256"] for pair in pairs if pair}
    for name, sha256 in sums.items():
        if not (folder / name).is_file():  # neither a folder nor a device
            raise UserError(f"{folder / name}: missing; {AGAIN}")
        if sha256_file(folder / name) != sha256:
            raise UserError(f"{folder / name}: damaged (see {listed.name}); {AGAIN}")
    return [folder / name for name in sums if name.startswith(f"{study.name}.results-")]


def _recorded(study: Study) -> Path:
    """Where `pcqc vary` records variations of a study that the repository has."""
    return variations(ROOT / "config" / "studies" / f"{study.name}.yaml")


def _variations(study: Study, folder: Path) -> dict[Path, bytes]:
    """Records of variations that a bundle has and this clone lacks, by where they belong.

    Raises:
        UserError: this clone has others, or they name something to run.
    """
    lacking = {}
    for member in (study, *replicates(study)):
        released, path = folder / f"{member.name}{VARIATIONS}", _recorded(member)
        if not released.exists():
            continue
        for name, entry in strangers(released, member).items():
            show_line(f"{name}: {json.dumps(entry)}")
        if not path.exists():
            lacking[path] = read_bytes(released)
        elif path.read_bytes() != read_bytes(released):
            raise UserError(f"{path}: records other variations; move it away to restore")
    return lacking


def _report(study: Study) -> Job:
    """The job of the report, once it shows what is here.

    A run that was made again has equal files, but for its times; on a machine that does not repeat
    numbers it has others, and all that shows them is to be made again too.
    """
    report = Jobs(study).job("report")
    if not report.manifest.exists():
        raise UserError(
            f"{study.results}/report.html: older than what it shows; run `pcqc report {study.name}`"
        )
    for member in (study, *replicates(study)):
        jobs = Jobs(member)
        for record in read_json(checked(jobs.job("collect").path / "runs.json"), CollectedRuns):
            of_run = (record["method"], record["run"])
            pairs = [("evaluate", record["evaluation"]), ("train", record["training"])]
            for kind, collected in pairs:
                here = collected and read_manifest(jobs.job(kind, *of_run).path)
                if collected and _untimed(here) != _untimed(collected):
                    shown = ", ".join(
                        KINDS[name].folder for name in ("mirror", "collect", "report")
                    )
                    raise UserError(
                        f"{member.results}: {kind} {' '.join(of_run)} was made again with other "
                        f"numbers; move {shown} there away and run the workflow again: "
                        f"`make results STUDY={study.name}`"
                    )
    return report


def _untimed(manifest: dict[str, Any]) -> dict[str, str]:
    """File -> SHA-256 of what equal runs share."""
    return {n: sha256 for n, sha256 in manifest["files"].items() if n not in UNLIKE}


def _files(study: Study, job: Job) -> Iterator[Path]:
    """Files of a result that a bundle holds: neither cases nor checkpoints that were not chosen."""
    pretrained = job.kind == "base" and not study.synthetic  # models of others
    if KINDS[job.kind].is_data or pretrained:
        return archive.files_of(job, lambda name: False)
    chosen = ""
    if job.kind == "train":
        update = read_manifest(Jobs(study).job("evaluate", *job.arguments).path)["update"]
        chosen = f"{CHECKPOINTS}/{update:06d}/"

    def kept(name: str) -> bool:
        return not name.startswith(f"{CHECKPOINTS}/") or name.startswith(chosen)

    if lacking := sorted(filter(kept, left_out(job.path))):
        raise UserError(
            f"{job.path / lacking[0]}: was not in the archive that the study is restored from; "
            "make the bundle where the study was made"
        )
    return archive.files_of(job, kept)


def _parts(files: list[Path]) -> Iterator[list[Path]]:
    """Files in their order, as many at a time as fit into one part."""
    part, size = [], 0
    for path in files:
        if part and size + path.stat().st_size > LIMIT:
            yield part
            part, size = [], 0
        part.append(path)
        size += path.stat().st_size
    yield part


def _card(study: Study, made: list[Path], too_large: list[Path]) -> str:
    """What the bundle is, how it was made, its licence and size."""
    what = {path.name: "variations of methods" for path in made if path.suffix == ".yaml"}
    rows = [
        f"| `{path.name}` | {path.stat().st_size:,} | {what.get(path.name, 'results')} |"
        for path in made
    ]
    lines = [f"- `{path}`: {path.stat().st_size / 1e9:.1f} GB" for path in too_large]
    listed = "\nToo large for a release, and left out:\n\n" + "\n".join(lines) + "\n"
    return TEXT.format(
        name=study.name,
        title=study.title,
        files="\n".join(rows),
        commit=git_commit(),
        size=sum(path.stat().st_size for path in made) / 1e6,
        owners="" if study.synthetic else OWNERS,
        sums=f"{study.name}{SUMS}",
        left_out=listed if too_large else "",
    )
