"""Tars of results: how they are packed, and how those of strangers are unpacked.

Nothing in a tar is believed. It is read as a stream of bounded size and memory; it may hold plain
files below the folder that it is unpacked into, and nothing else.
"""

import errno
import io
import lzma
import os
import shutil
import tarfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from pcqc.logged.updates import TIMES
from pcqc_base.errors import UserError, describe, one_line
from pcqc_base.system.files import sha256_file, write_json
from pcqc_base.system.locks import hold
from pcqc_base.system.manifest import (
    LATEST,
    LEFT_OUT,
    MANIFEST,
    checked,
    is_result,
    read_manifest,
    result_of,
)
from pcqc_study.job_kinds import KINDS

LIMIT = 1_900_000_000  # bytes of files in one tar: GitHub takes files below 2 GiB
MOST = LIMIT + 200_000_000  # of the whole tar, with its headers
MEMORY = 256_000_000  # bytes: what we pack takes 65 million to unpack
CHUNK = 1 << 20  # bytes that are read at a time; a header is shorter
AGAIN = "get the file again"
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM)


def packed(files: Mapping[str, bytes | Path]) -> Iterator[bytes]:
    """A compressed tar of contents or files by name, in their order, part by part.

    Raises:
        UserError: a file changes while it is read.
    """
    xz = lzma.LZMACompressor(preset=9)
    size = 0
    for part in _tar(files):
        size += len(part)
        yield xz.compress(part)
    yield xz.compress(b"\0" * (-size % tarfile.RECORDSIZE))
    yield xz.flush()


def _tar(files: Mapping[str, bytes | Path]) -> Iterator[bytes]:
    """Headers, contents and the end of a tar, without the zeros that fill its last record."""
    for name, source in files.items():
        entry = tarfile.TarInfo(name)  # of no owner and no time
        entry.size = source.stat().st_size if isinstance(source, Path) else len(source)
        yield entry.tobuf()
        left = entry.size
        with open(source, "rb") if isinstance(source, Path) else io.BytesIO(source) as file:
            while part := file.read(CHUNK):
                left -= len(part)
                yield part
        if left:
            raise UserError(f"{source}: changed while it was packed; run again")
        yield b"\0" * (-entry.size % tarfile.BLOCKSIZE)
    yield b"\0" * (2 * tarfile.BLOCKSIZE)


def unpack(path: Path, folder: Path, most: int = MOST) -> list[str]:
    """Unpack a tar of a stranger's; the names of its files, in their order.

    Args:
        path: the tar.
        folder: where its files go; they are new there.
        most: bytes that the tar may have once it is decompressed.

    Raises:
        UserError: it is damaged, too large for `most` or the disk, or holds a link, a device, a
            file that would lie elsewhere, or a file twice.
    """
    names = []
    try:
        with (
            open(path, "rb") as file,
            tarfile.open(mode="r:", fileobj=_Bounded(file, most)) as archive,
        ):
            for entry in archive:
                target = folder / _safe(path, entry)
                if entry.size > shutil.disk_usage(folder).free:
                    raise UserError(f"{path}: holds more than {folder} has room for; free some")
                target.parent.mkdir(parents=True, exist_ok=True)
                with open(target, "xb") as new:
                    shutil.copyfileobj(archive.extractfile(entry), new, CHUNK)  # type: ignore[arg-type]
                    new.flush()
                    os.fsync(new.fileno())
                names.append(entry.name)
    except (tarfile.TarError, lzma.LZMAError, EOFError, OSError, ValueError, KeyError) as problem:
        if isinstance(problem, OSError) and problem.errno in FULL:
            raise UserError(f"cannot write {folder}: {describe(problem)}") from None
        raise UserError(f"{path}: damaged ({one_line(str(problem))}); {AGAIN}") from None
    return names


@contextmanager
def staged(folder: Path, what: str) -> Iterator[Path]:
    """A new folder on the disk of another, for what is unpacked until it was checked; then it goes.

    Args:
        folder: beside which it lies; a restore that was killed has left it.
        what: what is unpacked there, for an error.
    """
    stage = folder.with_name(f".{folder.name}.restored")
    with hold(stage.with_name(f"{stage.name}.lock"), what):
        shutil.rmtree(stage, ignore_errors=True)
        stage.mkdir(parents=True)
        try:
            yield stage
        finally:
            shutil.rmtree(stage, ignore_errors=True)


def place(source: Path, target: Path) -> None:
    """Move a file that was unpacked to where it belongs."""
    target.parent.mkdir(parents=True, exist_ok=True)
    os.replace(source, target)


def _safe(path: Path, entry: tarfile.TarInfo) -> str:
    """The name of an entry; UserError where it is no plain file below the folder."""
    name, parts = entry.name, PurePosixPath(entry.name).parts
    if entry.type != tarfile.REGTYPE or entry.sparse or entry.size < 0:  # type: ignore[attr-defined]
        raise UserError(f"{path}: {one_line(name)} is no plain file; {AGAIN}")
    plain = name.isprintable() and "\\" not in name and "/".join(parts) == name
    if not (plain and parts) or any(part.startswith((".", "/")) for part in parts):
        raise UserError(f"{path}: holds files that lie elsewhere ({one_line(name)}); {AGAIN}")
    return name


def whole_results(folder: Path, studies: Collection[str]) -> list[Path]:
    """The results below a folder, relative to it, once every file is what its manifest says.

    Files that a manifest names may be missing: weights that were not selected are.

    Args:
        folder: with the results of studies, as `results/` has them.
        studies: whose they may be.

    Raises:
        UserError: a result is of another study, stands in the place of another job, or has a file
            that its manifest does not.
    """
    results = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = path.relative_to(folder)
        if problem := _stray(folder, name, studies):
            raise UserError(f"the bundle holds {one_line(str(name))}, {problem}; {AGAIN}")
        if path.name == MANIFEST and is_result(path.parent):
            results.append(name.parent)
    return results


def _stray(folder: Path, name: Path, studies: Collection[str]) -> str:
    """Why a file is no part of a result in its place; empty where it is."""
    if name.parts[0] not in studies:
        return "of another study"
    try:
        result = result_of(folder / name)
        job = str(read_manifest(result)["fingerprint"].get("job")).split()
        if folder / name != result / MANIFEST:
            checked(folder / name)
    except UserError:
        return "which no manifest describes"
    kind = KINDS.get(job[0]) if job else None
    home = kind and folder.joinpath(name.parts[0], kind.folder, *job[1:])
    return "" if home == result.parent else "of another job"


def refuse_others(unpacked: Path, target: Path) -> None:
    """UserError where another result stands in the place of one, or is newer."""
    newest = target.with_name(LATEST)
    drawn = target.parts[2] == KINDS["report"].folder  # a newer one stays
    other = newest.exists() and newest.resolve() != target.resolve() and not drawn
    for path in unpacked.rglob("*"):
        here = target / path.relative_to(unpacked)
        # A result that was made again has the same files, and times of its own.
        timed = path.name in (MANIFEST, f"{TIMES}.jsonl")
        if path.is_file() and here.exists() and not (timed and here.is_file()):
            other |= not here.is_file() or sha256_file(here) != sha256_file(path)
    if other:
        raise UserError(f"{target}: other runs are here; move them away to restore")


def place_result(unpacked: Path, target: Path) -> None:
    """Put what a result lacks where it belongs, its manifest last."""
    files = sorted(path for path in unpacked.rglob("*") if path.is_file())
    for path in sorted(files, key=lambda path: path == unpacked / MANIFEST):
        if not (here := target / path.relative_to(unpacked)).exists():
            place(path, here)
    lacking = [n for n in read_manifest(target)["files"] if not (target / n).exists()]
    if lacking:
        write_json(target / LEFT_OUT, lacking)
    if not (newest := target.with_name(LATEST)).exists():
        newest.symlink_to(target.name)


class _Bounded:
    """A decompressed stream of bounded size, memory and steps, as `tarfile` reads one."""

    def __init__(self, file: BinaryIO, most: int):
        self._file, self._most, self._place = file, most, 0
        self._xz = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MEMORY)

    def tell(self) -> int:
        """Bytes that were read."""
        return self._place

    def seek(self, place: int) -> None:
        """Go forward."""
        while self._place < place:
            if not self.read(min(CHUNK, place - self._place)):
                raise EOFError("it ends too soon")

    def read(self, size: int) -> bytes:
        """So many bytes, fewer at the end."""
        if not 0 <= size <= CHUNK:
            raise tarfile.ReadError(f"a header of {size} bytes")
        parts: list[bytes] = []
        while (left := size - sum(map(len, parts))) and not self._xz.eof:
            given = self._file.read(1 << 16) if self._xz.needs_input else b""
            if self._xz.needs_input and not given:
                raise EOFError("it ends too soon")
            parts.append(self._xz.decompress(given, left))
        self._place += sum(map(len, parts))
        if self._place > self._most:
            raise tarfile.ReadError(f"more than {self._most:,} bytes")
        return b"".join(parts)
