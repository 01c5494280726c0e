"""Downloads a published file from its own home: pinned, checked, and resumed where it stopped."""

import hashlib
import http.client
import os
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from data_prep.real.sources import Source
from pcqc.errors import UserError
from pcqc.files import describe, hold, read_bytes, sha256_file

BLOCK = 1 << 16
TIMEOUT = 60.0  # seconds without a byte


def introduce(source: Source) -> str:
    """What a source is, how large, under which licence, and where it is: said before any byte."""
    size = f"{source.bytes / 1e6:.1f} MB" if source.bytes else "size not known before it starts"
    return (
        f"{source.name}: {source.title}, {size}\n  licence: {source.licence}\n  from {source.url}"
    )


def fetch(source: Source, folder: Path, say: Callable[[str], None] = print) -> Path:
    """Download a source to its place below `folder`, or find it there; its path.

    Bytes go to a `.part` file, which a later try goes on with; they get their name only when they
    have the pinned digest.

    Raises:
        UserError: a broken connection or a full disk (what came is kept); a wrong digest (what came
            is removed); another file in its place (left as it is); a download already under way.
    """
    say(introduce(source))
    target = folder / source.file
    if target.exists():
        if problem := _mismatch(source, target):
            raise UserError(f"{target}: {problem}; move it away and fetch again")
        say(f"  already at {target}, with the pinned digest")
        return target
    part = target.with_name(f"{target.name}.part")
    with hold(part, f"the download of {source.name}") as file:
        _complete(source, file, part)
        if problem := _mismatch(source, part):
            part.unlink()
            raise UserError(
                f"{source.url}: {problem}; what came was removed: fetch again, and if it stays "
                "so, its home does not serve the pinned revision"
            )
        os.replace(part, target)
    say(f"  at {target}, sha256 {sha256_file(target)}")
    return target


def _complete(source: Source, file: BinaryIO, part: Path) -> None:
    """Append to `file` what it still lacks of the source."""
    kept = f"what came is in {part}: fetch again to go on"
    try:
        if source.bytes is None or file.tell() < source.bytes:
            _download(source, file)
        _sync(file)
    except urllib.error.HTTPError as problem:
        # 416: nothing lies behind the part, so it is whole; its digest tells whether it is right.
        if problem.code != http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            raise UserError(f"{source.url}: {problem.code} {problem.reason}; {kept}") from None
    except (OSError, http.client.HTTPException) as problem:
        reason = describe(problem) if isinstance(problem, OSError) else repr(problem)
        raise UserError(f"cannot fetch {source.url}: {reason}; {kept}") from None


def _download(source: Source, file: BinaryIO) -> None:
    """Ask for the bytes behind those at hand; all of them where the server knows no ranges."""
    start = file.tell()
    request = urllib.request.Request(source.url, headers={"Accept-Encoding": "identity"})
    if start:
        request.add_header("Range", f"bytes={start}-")
    with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
        if start and response.status != http.HTTPStatus.PARTIAL_CONTENT:
            file.truncate(0)
        expected = response.length
        received = 0
        while block := response.read(BLOCK):
            file.write(block)
            received += len(block)
        if expected is not None and received < expected:
            raise ConnectionError(f"the connection ended after {received} of {expected} bytes")


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _mismatch(source: Source, path: Path) -> str | None:
    """How a file differs from the pinned one, in a clause, or None."""
    if source.sha256:
        name, pinned, found = "sha256", source.sha256, sha256_file(path)
    else:
        name, pinned, found = "git blob id", source.git_blob, git_blob(path)
    return None if found == pinned else f"its {name} is {found}, the pinned one is {pinned}"


def git_blob(path: Path) -> str:
    """The id by which git names a file's contents."""
    data = read_bytes(path)
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
