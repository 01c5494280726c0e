"""Downloads a published file from its home: pinned, checked by digest, resumable."""

import hashlib
import http.client
import os
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from data_prep.sources import Source
from pcqc.errors import UserError, one_line
from pcqc.system.files import describe, hold, read_bytes, sha256_file

BLOCK = 1 << 16
TIMEOUT = 60.0  # seconds without a byte
LARGEST = 1 << 30  # bytes of a file whose size is not known


class _TooLarge(Exception):
    """The server sends more bytes than the file may have."""


def introduce(source: Source) -> str:
    """What a source is, its size, licence and address; printed before any byte is asked for."""
    size = f"{source.bytes / 1e6:.1f} MB" if source.bytes else "size not known"
    return (
        f"{source.name}: {source.title}, {size}\n  licence: {source.licence}\n  from {source.url}"
    )


def fetch(source: Source, folder: Path, say: Callable[[str], None] = print) -> Path:
    """Download a source to its place below `folder`, or find it there; its path.

    Bytes go to a `.part` file, which a later try continues. The file gets its name only after its
    digest is that of `sources.yaml`.

    Raises:
        UserError: a broken connection or a full disk (the part is kept); a wrong digest or too many
            bytes (the part is removed); a redirect away from https; another file in its place (left
            as it is); a download already under way.
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
                f"{source.url}: {problem}; the download was removed: fetch again. If this "
                "repeats, its home lacks the pinned revision"
            )
        os.replace(part, target)
    say(f"  at {target}, sha256 {sha256_file(target)}")
    return target


def _complete(source: Source, file: BinaryIO, part: Path) -> None:
    """Append to `file` what it still lacks of the source."""
    kept = f"the part so far is {part}: fetch again to continue"
    try:
        if source.bytes is None or file.tell() < source.bytes:
            _download(source, file)
        _sync(file)
    except _TooLarge:
        part.unlink()
        raise UserError(
            f"{source.url}: sends more than {_limit(source):,} bytes, so not the pinned file; the "
            "download was removed: see whether its home still has the pinned revision"
        ) from None
    except urllib.error.HTTPError as problem:
        # 416: no bytes follow the part, so it is whole; the digest decides whether it is correct.
        if problem.code != http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            raise UserError(f"{source.url}: {problem.code} {problem.reason}; {kept}") from None
    except (OSError, http.client.HTTPException) as problem:
        reason = describe(problem) if isinstance(problem, OSError) else repr(problem)
        raise UserError(f"cannot fetch {source.url}: {reason}; {kept}") from None


def _download(source: Source, file: BinaryIO) -> None:
    """Ask for the missing bytes; for all if the server does not support ranges."""
    start = file.tell()
    request = urllib.request.Request(source.url, headers={"Accept-Encoding": "identity"})
    if start:
        request.add_header("Range", f"bytes={start}-")
    opener = urllib.request.build_opener(_HttpsRedirects)
    with opener.open(request, timeout=TIMEOUT) as response:
        if start and response.status != http.HTTPStatus.PARTIAL_CONTENT:
            start = 0
            file.truncate(0)
        expected = response.length
        received = 0
        while block := response.read(BLOCK):
            received += len(block)
            if start + max(received, expected or 0) > _limit(source):
                raise _TooLarge
            file.write(block)
        if expected is not None and received < expected:
            raise ConnectionError(f"the connection ended after {received} of {expected} bytes")


class _HttpsRedirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects to https alone."""

    def redirect_request(self, request, response, code, reason, headers, address):
        if urllib.parse.urlsplit(address).scheme != "https":
            refused = f"redirects to {one_line(address)}, which is not https; not followed"
            raise urllib.error.HTTPError(request.full_url, code, refused, headers, response)
        return super().redirect_request(request, response, code, reason, headers, address)


def _limit(source: Source) -> int:
    return LARGEST if source.bytes is None else source.bytes


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
