"""Downloads a published file from its home: pinned to a revision, checked by digest."""

import http.client
import os
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from data_prep.sources import Source
from pcqc_base.errors import UserError, describe, one_line
from pcqc_base.system.files import read_bytes, sha256_file
from pcqc_base.system.locks import hold

BLOCK = 1 << 16
TIMEOUT = 60.0  # seconds without a byte
LARGEST = 1 << 30  # bytes of a file whose size is not known


def introduce(source: Source) -> str:
    """What a source is, its size, licence and address; printed before any byte is asked for."""
    size = f"{source.bytes / 1e6:.1f} MB" if source.bytes else "size not known"
    return (
        f"{source.name}: {source.title}, {size}\n  licence: {source.licence}\n  from {source.url}"
    )


def fetch(source: Source, folder: Path, say: Callable[[str], None] = print) -> Path:
    """Download a source to its place below `folder`, unless it is there; its path.

    Bytes go to a `.part` file, which gets its name only if its digest is that of `sources.yaml`.

    Raises:
        UserError: no connection or a broken one; a full disk; a wrong digest or too many bytes; a
            redirect away from https; another file in its place (left as it is); a download already
            under way. Nothing of a failed download is kept.
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
        try:
            file.truncate(0)
            _download(source, file)
            if problem := _mismatch(source, part):
                raise UserError(
                    f"{source.url}: {problem}; the download was removed: fetch again. If this "
                    "repeats, its home lacks the pinned revision"
                )
            os.replace(part, target)
        except urllib.error.HTTPError as problem:
            raise UserError(
                f"{source.url}: {problem.code} {problem.reason}; fetch again later, or see whether "
                "its home has moved"
            ) from None
        except (OSError, http.client.HTTPException) as problem:
            reason = describe(problem) if isinstance(problem, OSError) else repr(problem)
            raise UserError(f"cannot fetch {source.url}: {reason}; fetch again") from None
        finally:
            part.unlink(missing_ok=True)
    say(f"  at {target}, sha256 {sha256_file(target)}")
    return target


def _download(source: Source, file: BinaryIO) -> None:
    request = urllib.request.Request(source.url, headers={"Accept-Encoding": "identity"})
    opener = urllib.request.build_opener(_HttpsRedirects)
    limit, received = source.bytes or LARGEST, 0
    with opener.open(request, timeout=TIMEOUT) as response:
        expected = response.length
        while block := response.read(BLOCK):
            received += len(block)
            if max(received, expected or 0) > limit:
                raise UserError(
                    f"{source.url}: sends more than {limit:,} bytes, so not the pinned file; the "
                    "download was removed: see whether its home still has the pinned revision"
                )
            file.write(block)
    file.flush()
    os.fsync(file.fileno())
    if expected and received < expected:
        raise ConnectionError(f"the connection ended after {received} of {expected} bytes")


class _HttpsRedirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects to https alone."""

    def redirect_request(self, request, response, code, reason, headers, address):
        if urllib.parse.urlsplit(address).scheme != "https":
            refused = f"redirects to {one_line(address)}, which is not https; not followed"
            raise urllib.error.HTTPError(request.full_url, code, refused, headers, response)
        return super().redirect_request(request, response, code, reason, headers, address)


def _mismatch(source: Source, path: Path) -> str | None:
    """How a file differs from the pinned one, in a clause, or None."""
    if source.sha256:
        name, pinned, actual = "sha256", source.sha256, sha256_file(path)
    else:
        from huggingface_hub.utils.sha import git_hash

        name, pinned, actual = "git blob id", source.git_blob, git_hash(read_bytes(path))
    return None if actual == pinned else f"its {name} is {actual}, the pinned one is {pinned}"
