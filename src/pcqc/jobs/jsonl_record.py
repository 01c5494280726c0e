"""The run's own record: JSON-lines files that survive a kill and a resume without a trace of it."""

import hashlib
import json
import os
from pathlib import Path

from pcqc.errors import UserError
from pcqc.system.files import describe, read_bytes


class RunRecord:
    """An append-only JSON-lines file.

    A row is one write, so a kill leaves at most one torn line, at the end.
    """

    def __init__(self, path: str | Path, keep_bytes: int | None = None):
        """Open `path` for appending, made with its folder where missing.

        Args:
            path: the file.
            keep_bytes: length that it had when the state was saved; what follows goes, because a
                resumed run appends it again. None keeps all.
        """
        self.path = Path(path)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = open(self.path, "ab", buffering=0)  # noqa: SIM115 (closed by close)
            if keep_bytes is not None:
                self._file.truncate(keep_bytes)
        except OSError as problem:
            raise UserError(f"cannot write {path}: {describe(problem)}") from problem
        self._hash = hashlib.sha256(read_bytes(self.path))

    @property
    def written(self) -> dict[str, int | str]:
        """Length in bytes and SHA-256 of what is in the file."""
        return {"bytes": self._file.seek(0, os.SEEK_END), "sha256": self._hash.hexdigest()}

    def append(self, row: dict) -> None:
        """Append one row.

        Raises UserError when the disk is full; the file then ends with the row before.
        """
        line = (json.dumps(row, ensure_ascii=False) + "\n").encode()
        end = self._file.seek(0, os.SEEK_END)
        try:
            # A nearly full disk takes part of a line without an error: the rest then raises it.
            written = self._file.write(line)
            while written < len(line):
                written += self._file.write(line[written:])
        except OSError as problem:
            self._file.truncate(end)
            raise UserError(f"cannot write {self.path}: {describe(problem)}") from problem
        self._hash.update(line)

    def sync(self) -> None:
        """Have all rows on disk, where a power cut leaves them."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file, synced."""
        if not self._file.closed:
            self.sync()
            self._file.close()
