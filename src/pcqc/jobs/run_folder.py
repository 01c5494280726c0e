"""What a training run leaves: records, checkpoints with their validation, and its manifest."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from pcqc.errors import UserError
from pcqc.evaluation.benchmark import Evaluation
from pcqc.models.folder import MANIFEST, check_folder
from pcqc.study.job_outputs import JobOutput
from pcqc.system.files import read_bytes, read_json, sha256_file, write_json
from pcqc.tracking.record import RunRecord

RECORDS = ("events", "consultations")  # of every run; a method may add its own


class RunFolder:
    """A run's folder, in the one process that writes it; others ask where its state is.

    Args:
        product: the run as a job's result.
        records: names of the files that the run appends to.
    """

    def __init__(self, product: JobOutput, records: Sequence[str]):
        self.product, self.path, self.records = product, product.path, records
        self.checkpoints: dict[int, dict] = {}

    @property
    def fingerprint(self) -> str:
        """Of everything that the run's outcome depends on; names its resumable state."""
        receipt = self.product.receipt()
        return (receipt.made_from if receipt else self.product.today).fingerprint

    @property
    def state(self) -> Path:
        """Folder of the resumable state."""
        return self.path / "state" / self.fingerprint

    def checkpoint(self, update: int) -> Path:
        """Folder of a checkpoint."""
        return self.path / "checkpoints" / f"{update:06d}"

    def begin(self) -> None:
        """Set aside what a run of other settings, source or inputs left here."""
        state = self.path / "state" / self.product.today.fingerprint
        self.product.begin(resumable=state.exists())

    def go_on(self, update: int, written: dict) -> None:
        """Open the records as they were after so many updates.

        Args:
            update: number of finished updates.
            written: what `written` said then.

        Raises:
            UserError: a file that the run had written by then is missing or altered.
        """
        for name, entry in written.items():
            self._check(name, entry, update)
            if name.endswith(f"/{MANIFEST}"):
                check_folder((self.path / name).parent, self._remedy(update))
        self._files = {n: e for n, e in written.items() if "/" in n}
        self._open = {}
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
        found: Evaluation,
        more: dict[str, float],
    ) -> dict:
        """Write how a checkpoint did on the development benchmark; the numbers of it.

        Args:
            update: number of finished updates.
            digest: of the checkpoint.
            benchmark: the development benchmark.
            found: its evaluation.
            more: further numbers beside the evaluation's own.
        """
        name = f"{update:06d}"
        found.write(self.path / "validation" / f"{name}.parquet")
        summary = {**found.summary(), **more}
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

    def finish(self, manifest: dict) -> None:
        """Close the records, write the manifest, then the receipt.

        The manifest has the digests of the records and of the predictions; the receipt those of
        all files.
        """
        names = [*self.written(), "manifest.json"]
        for record in self._open.values():
            record.close()
        checkpoints = [self.checkpoints[update] for update in sorted(self.checkpoints)]
        files = [f"{name}.jsonl" for name in self.records]
        files += [one["validation"]["predictions"] for one in checkpoints]
        digests = {name: sha256_file(self.path / name) for name in files}
        contents = {**manifest, "checkpoints": checkpoints, "files": digests}
        write_json(self.path / "manifest.json", contents)
        self.product.finish(names)
