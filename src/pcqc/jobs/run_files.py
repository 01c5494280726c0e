"""What a training run writes into its folder.

    events.jsonl                  a row for each update and for each validation
    consultations.jsonl           some whole training consultations
    candidate_groups.jsonl, ...   what the method adds (`Method.records`); ATPO: trees.jsonl
    checkpoints/                  the policy, every few updates
    validation/                   predictions of each checkpoint on the development benchmark
    state/                        what a resume needs
    manifest.json                 written last

`record_rows.py` has the columns of the rows.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from pcqc.errors import UserError
from pcqc.evaluation.benchmark import Evaluation
from pcqc.jobs.jsonl_record import RunRecord
from pcqc.models.folder import MANIFEST, check_folder
from pcqc.system.files import read_bytes, read_json, sha256_file, write_json

RECORDS = ("events", "consultations")  # of every run; a method may add its own


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
            digest: of the checkpoint.
            benchmark: the development benchmark.
            evaluation: of the checkpoint on it.
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
