"""The run's own record: JSON-lines files that survive a kill and a resume without a trace of it."""

import json
import os
from pathlib import Path

from pcqc.errors import UserError
from pcqc.files import describe, read_bytes, write_atomic


class RunRecord:
    """An append-only JSON-lines file whose rows carry the number of their update.

    It holds `events.jsonl`, `candidate_groups.jsonl` or `consultations.jsonl`: any rows with an
    integer "update". A row is one write, so a kill leaves at most one torn line, at the end.
    """

    def __init__(self, path: str | Path):
        """Open `path` for appending, made with its folder where missing.

        What it holds already is kept as it is (see `open` to resume).
        """
        self.path = Path(path)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = open(self.path, "ab", buffering=0)  # noqa: SIM115 (closed by close)
        except OSError as problem:
            raise UserError(f"cannot write {path}: {describe(problem)}") from problem

    @classmethod
    def open(cls, path: str | Path, keep_through: int | None = None) -> "RunRecord":
        """Open `path` to go on after a checkpoint: a torn last line and later rows are dropped.

        Args:
            path: the file; need not exist.
            keep_through: the checkpoint's update; rows of later updates go, because the resumed
                run appends them again. None keeps every whole row.

        Raises:
            UserError: a row before the last line is broken or has no update; names the line.
        """
        if Path(path).exists():
            content = read_bytes(path)
            kept = _keep(content, keep_through, Path(path))
            if kept != content:
                write_atomic(path, kept)
        return cls(path)

    def append(self, row: dict) -> None:
        """Append one row, which must have an integer "update".

        Raises UserError when the disk is full; the file then ends with the row before.
        """
        if not isinstance(row.get("update"), int):
            raise UserError(f"{self.path}: a row needs the number of its update, got {row!r:.80}")
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

    def sync(self) -> None:
        """Have all rows on disk, where a power cut leaves them."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file, synced."""
        if not self._file.closed:
            self.sync()
            self._file.close()


def _keep(content: bytes, keep_through: int | None, path: Path) -> bytes:
    """The whole rows of `content` up to update `keep_through`, byte for byte."""
    # Without its newline the last line may be torn, even where it happens to be JSON.
    lines = content.split(b"\n")[:-1]
    kept = []
    for number, line in enumerate(lines, start=1):
        try:
            update = json.loads(line)["update"]
        except (ValueError, TypeError, KeyError) as problem:
            raise UserError(
                f"{path}, line {number}: not a row with an update; remove the line and run again"
            ) from problem
        if keep_through is None or update <= keep_through:
            kept.append(line + b"\n")
    return b"".join(kept)
