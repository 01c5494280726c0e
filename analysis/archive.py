"""The numbers behind README and docs, in git: anyone can draw their tables again without training.

`results/archive/STUDY.tar.xz` holds `collected/` of a study as the analysis reads it, with the
dialogues of the development benchmark alone (no table or figure asks for others), `peers/`, the
published credits that were evaluated beside it, and `settings.json`: what its jobs read of the
study's settings. Equal contents give equal bytes.
"""

import io
import json
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from analysis.load import collected_files, load, peers_folder, written
from analysis.tables import peers
from pcqc.errors import UserError
from pcqc.study import ROOT, Study
from pcqc.study.job_outputs import is_trained
from pcqc.study.paths import Paths
from pcqc.study.provenance import job_settings, run_settings
from pcqc.study.replicates import replicates
from pcqc.system.files import hold, parse_json, write_atomic

ARCHIVES = ROOT / "results" / "archive"
SETTINGS = "settings.json"
PEERS = "peers/"


def write(study: Study, archives: Path = ARCHIVES) -> list[Path]:
    """Write the archives of a study and of its replicates; their paths.

    Raises:
        UserError: what is collected is missing or broken.
    """
    load(study)
    made = []
    for one in (study, *replicates(study)):
        folder = Paths.of(one).collected
        files = {p.relative_to(folder).as_posix(): p.read_bytes() for p in _kept(one)}
        files |= {PEERS + name: content for name, content in peers.archived(one).items()}
        files[SETTINGS] = json.dumps(_settings(one, _peers(files)), indent=1).encode()
        made.append(archives / f"{one.name}.tar.xz")
        write_atomic(made[-1], _packed(files))
    return made


def restore(study: Study, archives: Path = ARCHIVES) -> list[Path]:
    """Unpack the archives of a study and of its replicates as `collected/`, `peers/`; the folders.

    Raises:
        UserError: there is no archive, it is damaged or was made with other settings, or something
            is collected already; nothing was changed.
    """
    every = [study, *replicates(study)]
    unpacked = [_checked(one, archives / f"{one.name}.tar.xz") for one in every]
    targets = [folder for one in every for folder in (Paths.of(one).collected, peers_folder(one))]
    if existing := [folder for folder in targets if folder.exists()]:
        raise UserError(f"{existing[0]}: is there already; move it away to restore the archive")
    for one, files in zip(every, unpacked, strict=True):
        collected, folder = Paths.of(one).collected, peers_folder(one)
        own = {name: content for name, content in files.items() if not name.startswith(PEERS)}
        with hold(collected.with_name(".collected.lock"), f"a collection of {one.name}"):
            _unpack(collected, own)
            written(one, "collect", (collected / name for name in own))
            _unpack(folder, {n.removeprefix(PEERS): files[n] for n in files.keys() - own.keys()})
    return [folder for folder in targets if folder.exists()]


def _unpack(folder: Path, files: dict[str, bytes]) -> None:
    """Write a folder as a whole; none without files."""
    new = folder.with_name(f".{folder.name}.restored")
    shutil.rmtree(new, ignore_errors=True)
    for name, content in files.items():
        write_atomic(new / name, content)
    if files:
        new.rename(folder)


def _kept(study: Study) -> list[Path]:
    """Files of `collected/` that tables and figures read, in order."""
    return [
        path
        for path in collected_files(study)
        if "dialogues" not in path.parts or path.stem == study.development
    ]


def _peers(files: dict[str, bytes]) -> list[tuple[str, str]]:
    """Method and letter of each published credit's run in an archive."""
    runs = parse_json(files[f"{PEERS}runs.json"]) if f"{PEERS}runs.json" in files else []
    return [(run["method"], run["run"]) for run in runs]


def _settings(study: Study, peers: list[tuple[str, str]]) -> dict[str, Any]:
    """Job -> settings that it read; what is collected, and the peers' runs, come of these jobs."""
    jobs = ["clinic", "pretrain"] if study.synthetic else ["models"]
    jobs += ["sft", "select", "evaluate", *(["continuation"] if study.continuation else [])]
    read = {job: job_settings(study, job) for job in jobs}
    runs = [(n, run) for n, m in study.methods.items() if not m.on_demand for run in m.runs]
    for name, run in (*runs, *peers):
        if name in study.methods and is_trained(study, name):
            read[f"train {name} {run}"] = run_settings(study, name, run)
    return json.loads(json.dumps(read, default=str))


def _packed(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:xz", preset=9) as archive:
        for name in sorted(files):
            entry = tarfile.TarInfo(name)  # of no owner and no time
            entry.size = len(files[name])
            archive.addfile(entry, io.BytesIO(files[name]))
    return buffer.getvalue()


def _checked(study: Study, path: Path) -> dict[str, bytes]:
    """An archive's files below `collected/`, once it is of the study's settings."""
    if not path.exists():
        raise UserError(f"{path}: no archive of '{study.name}'; `pcqc archive` writes one")
    try:
        with tarfile.open(path, mode="r:xz") as archive:
            entries = [(entry, archive.extractfile(entry)) for entry in archive]
            files = {entry.name: file.read() for entry, file in entries if file}
        settings, peers = parse_json(files.pop(SETTINGS)), _peers(files)
    except (tarfile.TarError, EOFError, OSError, KeyError, ValueError) as problem:
        raise UserError(f"{path}: damaged ({problem}); get the file again") from None
    if any(Path(name).is_absolute() or ".." in Path(name).parts for name in files):
        raise UserError(f"{path}: holds files that lie elsewhere; get the file again")
    if unlike := sorted(_differences(settings, _settings(study, peers))):
        raise UserError(
            f"{path}: was made with other settings ({', '.join(unlike)}); run the study again: "
            f"`make results STUDY={study.name}`"
        )
    return files


def _differences(archived: dict[str, Any], today: dict[str, Any]) -> Iterator[str]:
    """`train pcqc A: rl`: a job's settings that the two do not share, or a job that is no more.

    A run that the study has got since may be added: see `pcqc track collect --add`.
    """
    yield from archived.keys() - today.keys()
    yield from (job for job in today.keys() - archived.keys() if not job.startswith("train "))
    for job in archived.keys() & today.keys():
        one, other = archived[job], today[job]
        yield from (f"{job}: {k}" for k in one.keys() | other.keys() if one.get(k) != other.get(k))
