"""What a training run leaves: records, checkpoints with their validation, and its manifest."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from pcqc.errors import UserError
from pcqc.evaluation.benchmark import Evaluation
from pcqc.files import read_json, read_jsonl, sha256_file, write_json
from pcqc.tracking.record import RunRecord

RECORDS = ("events", "consultations", "candidate_groups", "trees")


class RunFolder:
    """A run's folder, in the one process that writes it.

    Args:
        path: of the folder.
        fingerprint: of everything that the run's outcome depends on; names its resumable state.
        records: which of `RECORDS` the run keeps.
    """

    def __init__(self, path: Path, fingerprint: str, records: Sequence[str]):
        self.path = path
        self.fingerprint = fingerprint
        self.records = records
        self.checkpoints: dict[int, dict] = {}

    @property
    def state(self) -> Path:
        """Folder of the resumable state."""
        return self.path / "state" / self.fingerprint

    def checkpoint(self, update: int) -> Path:
        """Folder of a checkpoint."""
        return self.path / "checkpoints" / f"{update:06d}"

    def clear(self) -> None:
        """A changed setting starts afresh: states and records of other fingerprints go."""
        others = [p for p in self.state.parent.glob("*") if p != self.state]
        if others or not self.state.exists():
            for name in RECORDS:
                (self.path / f"{name}.jsonl").unlink(missing_ok=True)
            shutil.rmtree(self.path / "checkpoints", ignore_errors=True)
            shutil.rmtree(self.path / "validation", ignore_errors=True)
        for other in others:
            shutil.rmtree(other)

    def go_on(self, update: int) -> None:
        """Open the records as they were after so many updates."""
        self._open = {
            name: RunRecord.open(self.path / f"{name}.jsonl", keep_through=update)
            for name in self.records
        }
        self._check_record(update)
        for path in sorted((self.path / "validation").glob("*.json")):
            if int(path.stem) <= update:
                self.checkpoints[int(path.stem)] = read_json(path)

    def _check_record(self, update: int) -> None:
        """Every update that the state has behind it must stand in the record too."""
        path = self.path / "events.jsonl"
        noted = {row["update"] for _, row in read_jsonl(path) if row.get("kind") == "update"}
        if missing := set(range(1, update + 1)) - noted:
            raise UserError(
                f"{path}: lacks update {min(missing)}, though the saved state is of update "
                f"{update}; remove {self.state} to start afresh"
            )

    def append(self, record: str, *rows: dict) -> None:
        """Append rows to one of the records; on disk before the state that goes beyond them."""
        for row in rows:
            self._open[record].append(row)
        self._open[record].sync()

    def keep_validation(self, update: int, digest: str, benchmark: str, found: Evaluation) -> dict:
        """Write how a checkpoint did on the development benchmark; the figures of it."""
        name = f"{update:06d}"
        found.write(self.path / "validation" / f"{name}.parquet")
        summary = found.summary()
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
        return summary

    def finish(self, manifest: dict) -> None:
        """Close the records and write the manifest, with the checkpoints and all files' digests."""
        for record in self._open.values():
            record.close()
        checkpoints = [self.checkpoints[update] for update in sorted(self.checkpoints)]
        files = [f"{name}.jsonl" for name in self.records]
        files += [one["validation"]["predictions"] for one in checkpoints]
        digests = {name: sha256_file(self.path / name) for name in files}
        contents = {**manifest, "checkpoints": checkpoints, "files": digests}
        write_json(self.path / "manifest.json", contents)
