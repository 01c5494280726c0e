"""A study for a release: its archives as git has them, and with them the results as they lie here.

`results/bundle/STUDY/` holds the archives of the study and of its replicates, a card, SHA-256 sums,
and parts with every run's training (consultations, candidate groups, metrics, the selected
checkpoint), selection, evaluation with its dialogues and continuation study; the fine-tuned models;
what `snakemake peers` and `lost_points` made; the report with its tables and figures; and the
record of `pcqc vary`. Cases stay out: a clinic draws them again, others have owners. Equal results
give equal bytes.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from analysis import archive
from analysis.collected import Collected
from analysis.load import load
from analysis.report import link, show
from pcqc.errors import UserError
from pcqc.system.checkout import ROOT, git_commit
from pcqc.system.files import sha256_file, write_atomic
from pcqc.system.manifest import LATEST, MANIFEST, checked, is_result, read_manifest, result_of
from pcqc_study.graph import Jobs, latest
from pcqc_study.mlflow_mirror.finished import CHECKPOINTS, milliseconds
from pcqc_study.settings import Study
from pcqc_study.settings.load import variations
from pcqc_study.settings.replicates import replicates

RESULTS = Path("results")
BUNDLES = RESULTS / "bundle"
# After the study's name: releases have no folders.
SUMS, CARD, VARIATIONS = ".SHA256SUMS", ".README.md", ".variations.yaml"
LIMIT = 1_900_000_000  # bytes before compression: GitHub takes files below 2 GiB

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
        packed = archive.packed({path.relative_to(RESULTS).as_posix(): path for path in part})
        write_atomic(made[-1], packed)
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
        UserError: a file is damaged or was made with other settings, or there are other runs;
            nothing was changed.
    """
    parts = _sound_parts(study, folder)
    varied = _variations(study, folder)
    for path, content in _places(study, parts):
        newest = result_of(path).parent / LATEST
        drawn = path.is_relative_to(study.results / "report")  # a newer one stays
        other = newest.exists() and newest.resolve() != result_of(path).resolve() and not drawn
        if other or (path.exists() and path.read_bytes() != content):
            raise UserError(f"{result_of(path)}: other runs are here; move them away to restore")
    restored = archive.restore(study, folder)
    for path, content in varied.items():
        write_atomic(path, content)
        restored.append(path)
    for path, content in _places(study, parts):
        if not path.exists():
            write_atomic(path, content)
        if path.name == MANIFEST and is_result(path.parent):  # the last file of a result
            if not (newest := path.parent.with_name(LATEST)).exists():
                link(newest, Path(path.parent.name))
            restored.append(path.parent)
    if (report := latest(study, "report")).exists():
        show(study, report)
    return restored


def _sound_parts(study: Study, folder: Path) -> list[Path]:
    """Parts of a bundle, none of archives alone, once every file is the one that was released."""
    listed = folder / f"{study.name}{SUMS}"
    if not listed.exists():
        return []
    sums = dict(reversed(line.split("  ", 1)) for line in listed.read_text().splitlines())
    for name, sha256 in sums.items():
        if not (folder / name).exists():
            raise UserError(f"{folder / name}: missing; {archive.AGAIN}")
        if sha256_file(folder / name) != sha256:
            raise UserError(f"{folder / name}: damaged (see {listed.name}); {archive.AGAIN}")
    return [folder / name for name in sums if name.startswith(f"{study.name}.results-")]


def _places(study: Study, parts: list[Path]) -> Iterator[tuple[Path, bytes]]:
    """Where each file of a bundle's parts belongs, and its content."""
    names = {member.name for member in (study, *replicates(study))}
    for part in parts:
        for name, content in archive.unpacked(part):
            if Path(name).parts[0] not in names:
                raise UserError(f"{part}: holds {name}, of another study; {archive.AGAIN}")
            yield RESULTS / name, content


def _recorded(study: Study) -> Path:
    """Where `pcqc vary` records variations of a study that the repository has."""
    return variations(ROOT / "config" / "studies" / f"{study.name}.yaml")


def _variations(study: Study, folder: Path) -> dict[Path, bytes]:
    """Records of variations that a bundle has and this clone lacks, by where they belong.

    Raises:
        UserError: this clone has others.
    """
    lacking = {}
    for member in (study, *replicates(study)):
        released, path = folder / f"{member.name}{VARIATIONS}", _recorded(member)
        if not released.exists():
            continue
        if not path.exists():
            lacking[path] = released.read_bytes()
        elif path.read_bytes() != released.read_bytes():
            raise UserError(f"{path}: records other variations; move it away to restore")
    return lacking


def _check_report(study: Study) -> None:
    """UserError where the newest report does not show what was collected or evaluated last."""
    shown = [latest(member, "collect") for member in (study, *replicates(study))]
    for method, run in Jobs(study).runs():
        evaluated = latest(study, "evaluate", method, run)
        if study.method(method).on_demand and evaluated.exists():
            shown.append(evaluated)
    begun = milliseconds(read_manifest(latest(study, "report"))["begun"])
    if any(begun < milliseconds(read_manifest(folder)["finished"]) for folder in shown):
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
    beside = [jobs.job("peers")]
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
    """UserError where a run's results are not here, or not those that were collected."""
    for kind, entry in (("train", "training"), ("evaluate", "evaluation")):
        files = read_manifest(made[kind])["files"] if kind in made else None
        if record[entry] and files != record[entry]["files"]:
            raise UserError(
                f"{study.results}: {kind} {record['method']} {record['run']} is not what was "
                f"collected; `make results STUDY={study.name}` makes and collects it"
            )


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
