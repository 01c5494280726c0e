"""The result files that are mirrored; no other module of this package knows where they lie.

Every file is compared with its manifest before it is used.
"""

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from urllib.parse import urlencode

from pcqc_base.system.files import digest, read_json, read_jsonl, sha256_file
from pcqc_base.system.manifest import MANIFEST, checked, read_manifest
from pcqc_study.graph import latest
from pcqc_study.settings import START, Study

# Folder of a run's artifacts in MLflow -> the kind of job that wrote them.
PLACES = {
    "training": "train",
    "evaluation": "evaluate",
    "continuation": "continuation",
}
CHECKPOINTS = "checkpoints"  # weights stay on this machine


@dataclass(frozen=True)
class FinishedRun:
    """One run of a method; `files` maps artifact paths in MLflow to files on disk."""

    study: Study
    method: str
    run: str
    fingerprint: str  # of the evaluation
    training: dict | None  # manifest of the training; None for Shared SFT
    evaluation: dict  # manifest of the evaluation
    selection: dict  # the choice of the checkpoint
    continuation: dict | None  # manifest of the continuation study; None for most runs
    files: dict[str, Path]
    sha256: dict[str, str]  # by artifact path
    started: int  # milliseconds since 1970: when the first of its jobs began
    ended: int  # when its evaluation had finished

    @property
    def title(self) -> str:
        """Such as `PCQC, run A`."""
        return f"{self.study.method(self.method).title}, run {self.run}"

    @property
    def transcripts(self) -> str:
        """Address of the page that shows its consultations, from where the study was run."""
        chosen = urlencode({"method": self.method, "run": self.run})
        return f"{self.study.results}/transcripts/index.html#{chosen}"

    @property
    def at_start(self) -> dict:
        """How Shared SFT, from which training starts, did on the development benchmark.

        Empty where the run is not trained or Shared SFT is not evaluated yet, which the mirror does
        not wait for.
        """
        letters = self.study.methods[START].runs
        if not self.training or not letters:
            return {}
        folder = latest(self.study, "evaluate", START, letters[0])
        if not (folder / MANIFEST).exists():
            return {}
        return read_manifest(folder)["benchmarks"].get(self.study.development, {})

    @property
    def duration(self) -> int:
        """Milliseconds from its start to its end, waiting included."""
        return max(0, self.ended - self.started)

    @cached_property
    def contents(self) -> str:
        """Digest of what the mirror writes: a run with equal contents is mirrored once."""
        return digest(self.sha256)

    @cached_property
    def groups(self) -> list[dict]:
        """The run's candidate groups; none for a method that draws none."""
        return self.rows("training/candidate_groups.jsonl")

    def rows(self, artifact: str) -> list[dict]:
        """Rows of a JSON-lines file of the run; none where the run has no such file."""
        path = self.files.get(artifact)
        return [row for _, row in read_jsonl(path)] if path else []


def milliseconds(time_stamp: str) -> int:
    """Milliseconds since 1970 of a time as `machine.now` writes it."""
    return round(1000 * datetime.fromisoformat(time_stamp).timestamp())


def read_finished(study: Study, method: str, run: str) -> FinishedRun:
    """Read the newest results of a run and check every file against its manifest.

    Raises:
        UserError: the run is not evaluated or, where it was trained, not finished; a file is
            missing or is not the one that its manifest describes.
    """
    study.require(method, run)
    manifests = {}
    files: dict[str, Path] = {}
    for place, kind in PLACES.items():
        folder = latest(study, kind, method, run)
        needed = place == "evaluation" or (
            place == "training" and study.method(method).kind == "rl"
        )
        if not needed and not folder.exists():
            continue
        manifests[place] = read_manifest(folder)
        names = [MANIFEST, *manifests[place]["files"]]
        kept = [name for name in names if not name.startswith(CHECKPOINTS)]
        files |= {f"{place}/{name}": folder / name for name in sorted(kept)}
    files["evaluation/selection.json"] = latest(study, "select", method, run) / "selection.json"
    if (grounding := latest(study, "grounding", method, run) / "grounding.csv").exists():
        files["continuation/grounding.csv"] = grounding
    # A manifest has a digest of itself, which `read_manifest` checked, and of the other files.
    for artifact, path in files.items():
        if not artifact.endswith(f"/{MANIFEST}"):
            checked(path)
    return FinishedRun(
        study=study,
        method=method,
        run=run,
        fingerprint=latest(study, "evaluate", method, run).resolve().name,
        training=manifests.get("training"),
        evaluation=manifests["evaluation"],
        selection=read_json(files["evaluation/selection.json"]),
        continuation=manifests.get("continuation"),
        files=files,
        sha256={artifact: sha256_file(path) for artifact, path in files.items()},
        started=milliseconds(manifests.get("training", manifests["evaluation"])["begun"]),
        ended=milliseconds(manifests["evaluation"]["finished"]),
    )


def selected_weights(run: FinishedRun) -> Path | None:
    """Folder of the selected checkpoint; None where its weights were removed."""
    study, update = run.study, run.evaluation["update"]
    link = latest(study, "train", run.method, run.run) if update else latest(study, "sft")
    result = link.with_name(link.resolve().name)  # an address that stays true
    folder = result / CHECKPOINTS / f"{update:06d}" if update else result / "actor"
    return folder if folder.is_dir() else None


def read_record(study: Study, method: str) -> dict:
    """Which MLflow run holds what of a method; UserError where it is missing or was altered."""
    return read_json(checked(latest(study, "mirror", method) / "record.json"))


def read_collected(study: Study) -> list[dict]:
    """Entries of `collected/runs.json`; UserError where it is missing or altered."""
    return read_json(checked(latest(study, "collect") / "runs.json"))
