"""A study for a release: its archives as git has them, and with them the results as they lie here.

`results/bundle/STUDY/` holds the archives of the study and of its replicates, a card, SHA-256 sums,
and parts with every run's training (consultations, candidate groups, metrics, the selected
checkpoint), selection, evaluation with its dialogues and continuation study; the fine-tuned models;
what was mirrored and collected; what `snakemake peers` and `lost_points` made; the report with its
tables and figures; and the record of `pcqc vary`. So the study that is restored of the bundle is
finished. Cases stay out: a clinic draws them again, others have owners. Equal results give equal
bytes.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from analysis import archive
from analysis.collected import Collected
from analysis.load import load
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
from pcqc.logged.updates import TIMES
from pcqc_base.errors import UserError
from pcqc_base.system.checkout import ROOT, git_commit
from pcqc_base.system.files import read_bytes, sha256_file, write_atomic
from pcqc_base.system.manifest import MANIFEST, checked, read_manifest
from pcqc_base.system.terminal import show as show_line
from pcqc_study.graph import Jobs, latest
from pcqc_study.kinds import KINDS
from pcqc_study.mlflow_mirror.finished import CHECKPOINTS
from pcqc_study.settings import Study
from pcqc_study.settings.load import variations
from pcqc_study.settings.replicates import replicates
from pcqc_study.settings.vary import strangers

RESULTS = Path("results")
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


def write(study: Study, bundles: Path = BUNDLES) -> Path:
    """Write the bundle of a finished study; its folder.

    Raises:
        UserError: a result is missing, altered, or not the one that was collected; the report is
            older than what was collected.
    """
    collected = load(study)
    _check_report(study)
    files = [path for each in collected.on_each_base for path in _results(each)]
    files += _of_result(latest(study, "report"))
    too_large = [path for path in files if path.stat().st_size > LIMIT]
    folder = bundles / study.name
    made = archive.write(study, folder)
    for member in (study, *replicates(study)):
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
    """Unpack a bundle, or archives alone, among the results; the folders.

    What is there already stays, so that a second call completes one that was stopped.

    Raises:
        UserError: a file is damaged, was made with other settings or is no part of a result, a
            variation names something to run, or there are other runs; nothing was changed.
    """
    parts = _sound_parts(study, folder)
    varied = _variations(study, folder)
    with staged(study.results, f"restoring '{study.name}'") as stage:
        unpacked = stage / RESULTS
        unpacked.mkdir()
        for part in parts:
            unpack(part, unpacked)
        results = whole_results(unpacked, {m.name for m in (study, *replicates(study))})
        for result in results:
            refuse_others(unpacked / result, RESULTS / result)
        restored = archive.place_archives(study, folder, stage, within=set(results))
        for path, content in varied.items():
            write_atomic(path, content)
            restored.append(path)
        for result in results:
            place_result(unpacked / result, RESULTS / result)
            restored.append(RESULTS / result)
    if (report := latest(study, "report")).exists():
        show(study, report)
    return restored


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


def _check_report(study: Study) -> None:
    """UserError where the newest report does not show what was collected or evaluated last."""
    shown = {"collected": latest(study, "collect")}
    shown |= {f"collected {o.name}": latest(o, "collect") for o in replicates(study)}
    for method, run in Jobs(study).runs():
        evaluated = latest(study, "evaluate", method, run)
        if study.method(method).on_demand and evaluated.exists():
            shown[f"evaluate {method} {run}"] = evaluated
    inputs = read_manifest(latest(study, "report"))["fingerprint"]["inputs"]
    if any(inputs.get(name) != folder.resolve().name for name, folder in shown.items()):
        raise UserError(
            f"{study.results}/report.html: older than what it shows; run `pcqc report {study.name}`"
        )


def _results(collected: Collected) -> Iterator[Path]:
    """Files of the newest results of every run, and of what all share, each manifest last."""
    study = collected.study
    jobs = Jobs(study)
    for kind in ("base", "sft") if study.synthetic else ("sft",):
        yield from _of_result(latest(study, kind))
    for method, run in jobs.runs():
        made = {job.kind: job.latest for job in jobs.run(method, run) if job.latest.exists()}
        if record := collected.records.get((method, run)):
            _check_made(study, record, made)
        elif "evaluate" not in made:
            continue  # on demand, and nobody made it
        update = read_manifest(made["evaluate"])["update"]
        for folder in made.values():
            yield from _of_result(folder, keep=f"{CHECKPOINTS}/{update:06d}/")
    mirrored = [jobs.job("mirror", name) for name in dict(jobs.runs())]
    beside = [*mirrored, jobs.job("collect"), jobs.job("peers")]
    if study.synthetic:
        beside += [*jobs.lost_points(), jobs.job("lost_points_table")]
    for job in beside:
        if job.latest.exists():
            yield from _of_result(job.latest)


def _of_result(folder: Path, keep: str = f"{CHECKPOINTS}/") -> list[Path]:
    """Files of a result, its manifest last; of its checkpoints those below `keep`."""
    result = folder.with_name(folder.resolve().name)
    files = read_manifest(result)["files"]
    names = [name for name in files if not name.startswith(f"{CHECKPOINTS}/")]
    names += [name for name in files if name.startswith(keep)]
    return [*(checked(result / name) for name in names), result / MANIFEST]


def _check_made(study: Study, record: dict[str, Any], made: dict[str, Path]) -> None:
    """UserError where a run's results are not here, or not those that were collected.

    A run that was made again has equal files, but for its times; on a machine that does not repeat
    numbers it has others, and all that shows them is to be made again too.
    """
    run = f"{record['method']} {record['run']}"
    for kind, entry in (("train", "training"), ("evaluate", "evaluation")):
        if not (collected := record[entry]):
            continue
        here = read_manifest(made[kind]) if kind in made else {}
        if here.get("fingerprint") != collected.get("fingerprint"):
            raise UserError(
                f"{study.results}: {kind} {run} is not what was collected; "
                f"`make results STUDY={study.name}` makes and collects it"
            )
        if _untimed(here) != _untimed(collected):
            shown = ", ".join(KINDS[name].folder for name in ("mirror", "collect", "report"))
            raise UserError(
                f"{study.results}: {kind} {run} was made again with other numbers; move {shown} "
                f"there away and run the workflow again: `make results STUDY={study.name}`"
            )


def _untimed(manifest: dict[str, Any]) -> dict[str, str]:
    """File -> SHA-256 of what equal runs share."""
    return {n: sha256 for n, sha256 in manifest["files"].items() if n != f"{TIMES}.jsonl"}


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


def _card(study: Study, made: list[Path], left_out: list[Path]) -> str:
    """What the bundle is, how it was made, its licence and size."""
    what = {f"{study.name}.tar.xz": "what tables and figures are drawn from"}
    what |= {f"{other}.tar.xz": "the same on another base model" for other in study.replicates}
    what |= {path.name: "variations of methods" for path in made if path.suffix == ".yaml"}
    rows = [
        f"| `{path.name}` | {path.stat().st_size:,} | {what.get(path.name, 'all results')} |"
        for path in made
    ]
    lines = [f"- `{path}`: {path.stat().st_size / 1e9:.1f} GB" for path in left_out]
    too_large = "\nToo large for a release, and left out:\n\n" + "\n".join(lines) + "\n"
    return TEXT.format(
        name=study.name,
        title=study.title,
        files="\n".join(rows),
        commit=git_commit(),
        size=sum(path.stat().st_size for path in made) / 1e6,
        owners="" if study.synthetic else OWNERS,
        sums=f"{study.name}{SUMS}",
        left_out=too_large if left_out else "",
    )
