"""The numbers behind README and docs, in git: anyone can draw their tables again without training.

`results/archive/STUDY.tar.xz` holds `collected/` of a study as the analysis reads it, with the
dialogues of the development benchmark alone (no table or figure asks for others), `peers/`, the
published credits that were evaluated beside it, and `settings.json`: what its jobs read of the
study's settings. Equal contents give equal bytes. A release carries more: see `analysis.bundle`.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from analysis.load import PeerRun, load, peers_folder
from analysis.tables import peers
from analysis.tar_files import AGAIN, packed, place, staged, unpack
from pcqc_base.errors import UserError, few
from pcqc_base.system.checkout import ROOT
from pcqc_base.system.files import parse_json, read_json, write_atomic
from pcqc_base.system.manifest import (
    begin,
    checked,
    finish,
    hold_folder,
    read_manifest,
    write_manifest,
)
from pcqc_study.fingerprint import Job
from pcqc_study.graph import Jobs, latest
from pcqc_study.settings import Study
from pcqc_study.settings.replicates import replicates

ARCHIVES = ROOT / "results" / "archive"
SETTINGS = "settings.json"
PEERS = "peers/"
RUNS = f"{PEERS}runs.json"
MOST = 6  # differing settings that are named; the rest is counted


def write(study: Study, archives: Path = ARCHIVES) -> list[Path]:
    """Write the archives of a study and of its replicates; their paths.

    Raises:
        UserError: what is collected is missing or broken.
    """
    load(study)
    made = []
    for member in (study, *replicates(study)):
        folder = checked(latest(member, "collect"))
        files = {
            name: (folder / name).read_bytes()
            for name in read_manifest(folder)["files"]
            if "dialogues" not in Path(name).parts or Path(name).stem == member.development
        }
        files |= {PEERS + name: content for name, content in peers.archived(member).items()}
        evaluated = _peers(parse_json(files.get(RUNS, b"[]")))
        files[SETTINGS] = json.dumps(_settings(member, evaluated), indent=1).encode()
        made.append(archives / f"{member.name}.tar.xz")
        write_atomic(made[-1], packed({name: files[name] for name in sorted(files)}))
    return made


def restore(study: Study, archives: Path = ARCHIVES) -> list[Path]:
    """Unpack the archives of a study and of its replicates among the results; the folders.

    A collection's manifest declares it equal to what today's source would collect, so that tables,
    figures and report are made from it.

    Raises:
        UserError: there is no archive, it is damaged or was made with other settings, or other runs
            are collected already; nothing was changed.
    """
    with staged(study.results, f"restoring '{study.name}'") as stage:
        return place_archives(study, archives, stage)


def place_archives(
    study: Study, archives: Path, stage: Path, within: Collection[Path] = ()
) -> list[Path]:
    """Put the archives of a study and its replicates in place; `restore` says what is checked.

    Args:
        study: the study.
        archives: folder of the archives.
        stage: a new folder for what is not checked yet.
        within: results that a bundle brings beside them, relative to `results/`; a study whose
            collection is among them needs no other.
    """
    studies = [study, *replicates(study)]
    archived = [_checked(member, archives / f"{member.name}.tar.xz", stage) for member in studies]
    whole = [m for m in studies if Jobs(m).job("collect").path.relative_to("results") in within]
    archived = [a for member, a in zip(studies, archived, strict=True) if member not in whole]
    studies = [member for member in studies if member not in whole]
    for member in studies:
        job = Jobs(member).job("collect")
        if job.manifest.exists() and not read_manifest(job.path)["also_for"]:
            raise UserError(f"{job.path}: holds runs of this machine; move it away to restore")
    folders = []
    for member, (settings, files) in zip(studies, archived, strict=True):
        collect = Jobs(member).job("collect")
        job = replace(collect, settings=Archived(settings), entries=(), inputs={})
        own = {name: source for name, source in files.items() if not name.startswith(PEERS)}
        with hold_folder(job):
            begin(job)
            for name, source in own.items():
                place(source, job.path / name)
            finish(job, {})
            manifest = read_manifest(job.path)
            note = {
                collect.fingerprint.short: "restored from an archive made with the same settings"
            }
            write_manifest(job.path, {**manifest, "also_for": note})
        folders.append(job.path)
        if beside := {n.removeprefix(PEERS): files[n] for n in files.keys() - own.keys()}:
            for name, source in beside.items():
                place(source, peers_folder(member) / name)
            folders.append(peers_folder(member))
    return folders


@dataclass(frozen=True)
class Archived:
    """Job -> settings with which an archive's runs were made."""

    jobs: Mapping[str, Any]


def _peers(runs: Sequence[PeerRun]) -> list[tuple[str, str]]:
    """Method and letter of each published credit's run in an archive."""
    return [(run["method"], run["run"]) for run in runs]


def _settings(study: Study, peers: list[tuple[str, str]]) -> dict[str, Any]:
    """Job -> its settings, of every job that the collection and the peers' runs depend on."""
    return {job.name: job.fingerprint.settings for job in _jobs(study, peers)}


def _jobs(study: Study, peers: list[tuple[str, str]]) -> list[Job]:
    jobs = Jobs(study)
    runs = [(name, run) for name in jobs.methods for run in study.methods[name].runs]
    known = [pair for pair in peers if pair[0] in study.methods and pair[1] in study.runs]
    return [*jobs.shared(), *(job for pair in (*runs, *known) for job in jobs.run(*pair))]


def _checked(study: Study, path: Path, stage: Path) -> tuple[dict[str, Any], dict[str, Path]]:
    """An archive's settings and unpacked files, once it is of the study's settings."""
    if not path.exists():
        name = study.name
        raise UserError(
            f"{path}: no archive of '{name}'; `pcqc restore {name} --from FOLDER` reads another "
            f"folder, and where the study was run `pcqc archive {name}` writes one"
        )
    folder = stage / "archives" / study.name
    folder.mkdir(parents=True)
    files = {name: folder / name for name in unpack(path, folder)}
    if SETTINGS not in files:
        raise UserError(f"{path}: damaged (no {SETTINGS}); {AGAIN}")
    settings = read_json(files.pop(SETTINGS), dict[str, dict[str, Any]], AGAIN)
    peers = _peers(read_json(files[RUNS], list[PeerRun], AGAIN)) if RUNS in files else []
    if unlike := sorted(_differences(settings, _jobs(study, peers))):
        raise UserError(
            f"{path}: was made with other settings ({few(unlike, MOST)}); run the study again: "
            f"`make results STUDY={study.name}`"
        )
    return settings, files


def _differences(archived: dict[str, Any], jobs: Sequence[Job]) -> Iterator[str]:
    """`train pcqc A: rl.seed`: a setting that the two do not share, or a job that is no more.

    A run that the study has got since may be added: see `pcqc collect --add`.
    """
    today = {job.name: job for job in jobs}
    yield from archived.keys() - today.keys()
    yield from (name for name in today.keys() - archived.keys() if not today[name].arguments)
    for name in archived.keys() & today.keys():
        yield from (f"{name}: {key}" for key in today[name].changed_settings(archived[name]))
