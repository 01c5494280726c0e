"""The manifest of a result: its fingerprint, when and where it was made, the SHA-256 of its files.

A job writes into `results/STUDY/.../FINGERPRINT/`, and `manifest.json` last. Without it the result
is not finished, and the job goes on with what is there. Whoever reads a file of a result calls
`checked` first. A finished result is never written again.
"""

import functools
import importlib.metadata
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pcqc_base.errors import UserError, writing
from pcqc_base.system.checkout import git_commit
from pcqc_base.system.files import digest, read_json, sha256_file, write_json
from pcqc_base.system.json_shapes import Begun, ResultManifest
from pcqc_base.system.locks import hold
from pcqc_base.system.machine import machine, now

if TYPE_CHECKING:
    from pcqc_study.fingerprint import Job

MANIFEST = "manifest.json"
LATEST = "latest"
MARKER = ".made"  # an empty file in the folder of a whole result
LEFT_OUT = ".left_out"  # names of files that an archive or a bundle did not bring, as a JSON list
STATE = "state"  # what an unfinished job goes on from
UNLIKE = ("times.jsonl",)  # files in which equal runs differ
REMEDY = "run the workflow again"
ON_DEMAND = ("lost_points", "peers")  # folders with a target of their name, which `all` leaves out


def _again(path: Path) -> str:
    """The remedy for what a study lacks, with the command where the path names the study."""
    folder, *rest = path.parts
    if folder != "results":
        return REMEDY
    if len(rest) > 1 and rest[1] in ON_DEMAND:
        return f"{REMEDY}: `snakemake --cores all {rest[1]} --config study={rest[0]}`"
    return f"{REMEDY}: `make results STUDY={rest[0]}`"


def begin(job: "Job") -> None:
    """Make the folder of a job's result and note when the job began, unless it is under way."""
    started = job.path / STATE / "begun.json"
    if not started.exists():
        write_json(started, {"begun": now()})
    _begun(job)


def remove_if_empty(job: "Job") -> None:
    """Remove the folder of a job that was refused before it wrote anything."""
    files = [path.name for path in job.path.rglob("*") if path.is_file()]
    if files == ["begun.json"]:
        shutil.rmtree(job.path)


def _begun(job: "Job") -> str:
    path = job.path / STATE / "begun.json"
    return read_json(path, Begun, f"remove {path} and {REMEDY}")["begun"]


def finish(job: "Job", summary: dict[str, Any]) -> None:
    """Write the manifest over all files of the result.

    What the job could go on from stays: see `accepted`.

    Args:
        job: whose files are all written.
        summary: what the job says of its result; entries of the manifest.
    """
    heading = {
        "fingerprint": job.fingerprint.parts,
        "settings": job.fingerprint.known,
        "beside": job.beside,
        "also_for": {},
        "git_commit": git_commit(),
        "version": importlib.metadata.version("pcqc"),
        "machine": machine(),
        "begun": _begun(job),
        "finished": now(),
    }
    files = {name: sha256_file(job.path / name) for name in _names(job.path)}
    write_manifest(job.path, {**summary, **heading, "files": files})
    state = job.path / STATE
    if [path.name for path in state.iterdir()] == ["begun.json"]:  # nothing to go on from
        shutil.rmtree(state)
    make_latest(job)


def write_manifest(folder: Path, contents: dict[str, Any]) -> None:
    """Write a manifest with a digest of its own contents."""
    contents = {name: value for name, value in contents.items() if name != "digest"}
    write_json(folder / MANIFEST, {**contents, "digest": digest(contents)})


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a result.

    Raises:
        UserError: it is missing, altered, or of another result.
    """
    path = folder / MANIFEST
    if not path.is_file():
        raise UserError(f"{folder}: is not finished (no {MANIFEST}); {_again(folder)}")
    status = path.stat()
    return _read(folder.resolve(), str(_own(folder)), status.st_mtime_ns, status.st_ino)


@functools.lru_cache(maxsize=4096)
def _read(folder: Path, shown: str, modified: int, inode: int) -> dict[str, Any]:
    remedy = f"move {shown} away and {REMEDY}"
    manifest = read_json(folder / MANIFEST, dict[str, Any], remedy)
    contents = {name: value for name, value in manifest.items() if name != "digest"}
    if digest(contents) != manifest.get("digest"):
        raise UserError(f"{shown}/{MANIFEST}: altered since it was written; {remedy}")
    read_json(folder / MANIFEST, ResultManifest, remedy)  # a stranger's digest may fit
    if digest(manifest["fingerprint"])[:8] != folder.name:
        raise UserError(f"{shown}/{MANIFEST}: is of another result; {remedy}")
    return manifest


def checked(path: Path) -> Path:
    """The path, after the file or every file of the folder was compared with its manifest.

    Args:
        path: below a folder that holds a result, or such a folder.

    Raises:
        UserError: the result is not finished; a file is missing or altered.
    """
    folder = result_of(path)
    name = path.resolve().relative_to(folder.resolve()).as_posix()
    files = read_manifest(folder)["files"]
    below = [file for file in files if name in (".", file) or file.startswith(f"{name}/")]
    for file in below or [name]:
        _check(folder, file, files.get(file))
    return path


def result_of(path: Path) -> Path:
    """The folder of the result that a file or folder belongs to."""
    for folder in (path, *path.parents):
        if is_result(folder):
            return _own(folder)
    raise UserError(f"{path}: missing, or its result is not finished; {_again(path)}")


def _own(folder: Path) -> Path:
    """A result's folder by its own name: `latest`, once moved away, would come back."""
    return folder.with_name(folder.resolve().name) if folder.is_symlink() else folder


def is_result(folder: Path) -> bool:
    """Whether a folder is named by a fingerprint; folders of weights have manifests too."""
    name = folder.resolve().name
    return len(name) == 8 and not set(name) - set("0123456789abcdef")


def verify(folder: Path) -> None:
    """Check a finished result, reading only files that changed since its manifest was written.

    Snakemake takes what has a manifest for made; this finds what a user altered since.
    """
    files = read_manifest(folder)["files"]
    written = (folder / MANIFEST).stat().st_ctime_ns
    lacking = left_out(folder)
    for name, sha256 in files.items():
        path = folder / name
        if name in lacking:
            continue
        # Clocks of file systems are coarse: a file as old as the manifest may be younger.
        if not path.is_file() or path.stat().st_ctime_ns >= written:
            _check(folder, name, sha256)


def left_out(folder: Path) -> list[str]:
    """Files of a result that its manifest names and that an archive or a bundle did not bring."""
    note = folder / LEFT_OUT
    names = read_json(note, list[str], f"remove {note}") if note.exists() else []
    return [name for name in names if not (folder / name).exists()]


def adopt(folder: Path, again: Path) -> None:
    """Move what a result lacks to it from the same result made again.

    Raises:
        UserError: the two have other files in common than those that are the same.
    """
    wanted, made = (read_manifest(path)["files"] for path in (folder, again))
    for name, sha256 in wanted.items():
        if name not in UNLIKE and made.get(name) != sha256:
            whole = "/".join(folder.parts[:2])
            raise UserError(
                f"{folder / name}: made again it has other bytes than where it was archived "
                "(other code, another type of processor or, but for the clinic, another "
                f"OMP_NUM_THREADS?); make it as there, or move {whole} away and {REMEDY}"
            )
    for name in left_out(folder):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        os.replace(again / name, folder / name)
    (folder / LEFT_OUT).unlink(missing_ok=True)


def _check(folder: Path, name: str, sha256: str | None) -> None:
    path = folder / name
    if path.is_file() and sha256 and _sha256(path, path.stat().st_mtime_ns) == sha256:
        return
    if name in left_out(folder):
        kind, *arguments = read_manifest(folder)["fingerprint"]["job"].split()
        study = folder.parts[1:2] if folder.parts[0] == "results" else ("STUDY",)
        command = " ".join(["pcqc", kind, *study, *arguments])
        raise UserError(f"{path}: is not in the archive of the study; `{command}` makes it")
    state = "altered since it was written" if path.is_file() else "missing"
    raise UserError(f"{path}: {state}; move {folder} away and {REMEDY}")


@functools.lru_cache(maxsize=65536)
def _sha256(path: Path, modified: int) -> str:
    return sha256_file(path)


def _names(folder: Path) -> Iterator[str]:
    """Files of a result, relative to its folder; neither state nor hidden files."""
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        hidden = any(part.startswith(".") for part in name.parts)
        if path.is_file() and not hidden and name.parts[0] not in (STATE, MANIFEST):
            yield name.as_posix()


def accepted_folder(folder: Path, short: str) -> Path | None:
    """The folder of a result whose manifest declares a fingerprint equal to its own."""
    for path in sorted(folder.glob(f"*/{MANIFEST}")):
        other = path.parent
        own_name = is_result(other) and not other.is_symlink()  # neither `latest` nor a backup
        if own_name and short in read_manifest(other)["also_for"]:
            return other
    return None


def mark(job: "Job") -> None:
    """Tell the workflow that a result is whole.

    The marker is the only output that the workflow knows, so it can remove nothing else. Its age
    means nothing; one from the future, by a clock that was set back, would be taken for an error.
    """
    with writing(job.marker):
        job.marker.parent.mkdir(parents=True, exist_ok=True)
        job.marker.touch()


def unmark(job: "Job") -> None:
    """Have the workflow make a result's job again."""
    with writing(job.marker):
        job.marker.unlink(missing_ok=True)


def accepted(job: "Job") -> None:
    """Drop what a job could have gone on from, once its result is whole and was accepted."""
    if job.manifest.exists() and job.marker.exists():
        make_latest(job)
        shutil.rmtree(job.path / STATE, ignore_errors=True)


def make_latest(job: "Job") -> None:
    """Point `latest` beside a result at it."""
    link, new = job.folder / LATEST, job.folder / f".{LATEST}.{os.getpid()}"
    if not (link.is_symlink() and os.readlink(link) == job.path.name):
        with writing(link):
            new.unlink(missing_ok=True)
            new.symlink_to(job.path.name)
            os.replace(new, link)


def hold_folder(job: "Job"):
    """Keep other processes from the folder of a job's result, in a `with` statement."""
    return hold(lock(job.path), f"`pcqc {job.name}`", patience=1.0)


def lock(folder: Path) -> Path:
    """What a job holds while it writes the folder of its result."""
    return folder.with_name(f".{folder.name}.lock")
