"""What a training run writes into its folder.

    events.jsonl                  a row for each update and for each validation
    times.jsonl                   how long each took: what equal runs do not share
    consultations.jsonl           some whole training consultations
    candidate_groups.jsonl, ...   what the method adds (`Method.records`); ATPO: trees.jsonl
    checkpoints/                  the policy, every few updates
    validation/                   predictions of each checkpoint on the development benchmark
    state/                        what a resume needs
    manifest.json                 written last

`pcqc.logged` has the columns of the rows.
"""

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path

from pcqc.evaluation.benchmark import Evaluation, dialogue_row
from pcqc.logged.updates import EVENTS, TIMES, apart
from pcqc.methods.rollouts import RolloutBatch
from pcqc.models.folder import MANIFEST, check_folder
from pcqc_base.errors import UserError
from pcqc_base.system.files import describe, read_bytes, read_json, sha256_file, write_json

RECORDS = (EVENTS, TIMES, "consultations")  # of every run; a method may add its own


class RunFolder:
    """A run's folder, in the one process that writes it; others ask where its state is.

    Args:
        path: the folder.
        records: names of the files that the run appends to.
    """

    def __init__(self, path: Path, records: Sequence[str]):
        self.path, self.records = path, records
        self.checkpoints: dict[int, dict] = {}
        self._open: dict[str, RunRecord] = {}
        self._files: dict[str, dict] = {}  # beside the records: as `written` has them

    @property
    def state(self) -> Path:
        """Folder of the resumable state."""
        return self.path / "state" / "training"

    def checkpoint(self, update: int) -> Path:
        """Folder of a checkpoint."""
        return self.path / "checkpoints" / f"{update:06d}"

    def go_on(self, update: int, written: dict) -> None:
        """Open the records as they were after so many updates.

        Args:
            update: number of finished updates.
            written: what `written` returned then.

        Raises:
            UserError: a file that the run had written by then is missing or altered.
        """
        for name, entry in written.items():
            self._check(name, entry, update)
            if name.endswith(f"/{MANIFEST}"):
                check_folder((self.path / name).parent, self._remedy(update))
        self._files = {n: e for n, e in written.items() if "/" in n}
        for name in self.records:
            path = self.path / f"{name}.jsonl"
            length = written.get(path.name, {"bytes": 0})["bytes"]
            self._open[name] = RunRecord(path, keep_bytes=length)
        for path in sorted((self.path / "validation").glob("*.json")):
            if f"validation/{path.name}" in written:
                self.checkpoints[int(path.stem)] = read_json(path)

    def _check(self, name: str, entry: dict, update: int) -> None:
        path = self.path / name
        content = read_bytes(path)[: entry["bytes"]] if path.is_file() else b""
        if hashlib.sha256(content).hexdigest() != entry["sha256"]:
            how = "altered since it was written" if path.is_file() else "missing"
            raise UserError(f"{path}: {how}; {self._remedy(update)}")

    def _remedy(self, update: int) -> str:
        whole = [p for p in sorted(self.path.glob("checkpoints/*")) if p.is_dir()]
        kept = f" (its {len(whole)} checkpoints can be kept)" if whole else ""
        return (
            f"the run cannot go on after update {update} without it; move "
            f"{self.path} away{kept} and run the workflow again"
        )

    def written(self) -> dict[str, dict]:
        """Length and digest of every file that the run has written, for `go_on`."""
        return {record.path.name: record.written for record in self._open.values()} | self._files

    def append(self, record: str, *rows: dict) -> None:
        """Append rows to one of the records; on disk before the state that goes beyond them."""
        for row in rows:
            self._open[record].append(row)
        self._open[record].sync()

    def append_event(self, row: dict) -> None:
        """Append a row of an update or a validation, its times first: who watches joins them."""
        event, times = apart(row)
        self.append(TIMES, times)
        self.append(EVENTS, event)

    def keep_validation(
        self,
        update: int,
        digest: str,
        benchmark: str,
        evaluation: Evaluation,
        more: dict[str, float],
    ) -> dict:
        """Write the validation of a checkpoint; its summary.

        Args:
            update: number of finished updates.
            digest: the checkpoint's.
            benchmark: the development benchmark.
            evaluation: the checkpoint's on it.
            more: further numbers beside the evaluation's own.
        """
        name = f"{update:06d}"
        evaluation.write(self.path / "validation" / f"{name}.parquet")
        summary = {**evaluation.summary(), **more}
        self.checkpoints[update] = {
            "update": update,
            "path": f"checkpoints/{name}",
            "digest": digest,
            "validation": {
                "benchmark": benchmark,
                **summary,
                "predictions": f"validation/{name}.parquet",
            },
        }
        write_json(self.path / "validation" / f"{name}.json", self.checkpoints[update])
        for file in (
            f"validation/{name}.json",
            f"validation/{name}.parquet",
            f"checkpoints/{name}/manifest.json",
        ):
            path = self.path / file
            self._files[file] = {"bytes": path.stat().st_size, "sha256": sha256_file(path)}
        return summary

    def close(self) -> list[dict]:
        """Close the records; the checkpoints with their validation, in order."""
        for record in self._open.values():
            record.close()
        return [self.checkpoints[update] for update in sorted(self.checkpoints)]


class RunRecord:
    """An append-only JSON-lines file that survives a kill and a resume without a trace of it.

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


def consultation_rows(update: int, batch: RolloutBatch, count: int) -> list[dict]:
    """The first consultations of the first cases of an update, to read."""
    rows = []
    for i, (case, row) in enumerate(zip(batch.cases[:count], batch.consultations, strict=False)):
        extra = {
            "update": update,
            "rollout": 0,
            "reward": float(batch.rewards[i][0]),
            "advantage": float(batch.advantages[i][0]),
        }
        rows.append({**extra, **dialogue_row(case, row[0])})
    return rows
