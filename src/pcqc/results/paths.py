"""Where a person finds the newest results of a study: every name goes through a `latest` link.

Jobs are handed the exact folders that they read (`pcqc.results.graph`). What only looks at a study,
as the analysis and the mirror do, asks here.
"""

from dataclasses import dataclass
from pathlib import Path

from pcqc.results.manifest import LATEST
from pcqc.study.study import Study


@dataclass(frozen=True)
class Paths:
    """Newest results of a study below its results folder."""

    root: Path
    synthetic: bool

    @classmethod
    def of(cls, study: Study) -> "Paths":
        return cls(study.results, study.synthetic)

    def _latest(self, *parts: str) -> Path:
        return self.root.joinpath(*parts, LATEST)

    @property
    def train_cases(self) -> Path:
        return self.cases("train")

    @property
    def conversations(self) -> Path:
        return self._latest("data", "clinic" if self.synthetic else "train") / "sft.jsonl"

    @property
    def instruction(self) -> Path:
        """The actor's system message, where the study takes it from its published cases."""
        return self._latest("data", "instruction") / "instruction.txt"

    @property
    def world(self) -> Path:
        return self._latest("data", "clinic") / "world.json"

    def converted(self, name: str) -> Path:
        """Cases (or SFT rows) of a published file, all that could be converted."""
        return self._latest("data", "converted", name) / f"{name}.jsonl"

    def card(self, name: str) -> Path:
        """Data card of a published file."""
        return self.converted(name).with_suffix(".card.json")

    @property
    def overlap(self) -> Path:
        """Folder of the audit of what training and evaluation share."""
        return self._latest("data", "overlap")

    def excluded(self, name: str) -> Path:
        """Converted cases of the training (`train`) or of a benchmark that a study cannot use."""
        return self.cases(name).with_suffix(".exclusions.csv")

    def cases(self, name: str) -> Path:
        """Cases of the training (`train`) or of a benchmark."""
        return self._latest("data", "clinic" if self.synthetic else name) / f"{name}.jsonl"

    def model(self, role: str) -> Path:
        """Folder of `base`, `actor` (Shared SFT), `patient`, or another of a study's models."""
        kind = "sft" if role in ("actor", "patient") else "base"
        return self._latest("models", kind) / role

    def run(self, method: str, run: str) -> Path:
        return self._latest("runs", method, run)

    def selection(self, method: str, run: str) -> Path:
        return self._latest("selection", method, run) / "selection.json"

    def evaluation(self, method: str, run: str) -> Path:
        return self._latest("evaluation", method, run)

    def continuation(self, method: str, run: str) -> Path:
        return self._latest("continuation", method, run)

    def grounding(self, method: str, run: str) -> Path:
        return self._latest("grounding", method, run) / "grounding.csv"

    def tracking(self, method: str) -> Path:
        """Which MLflow run holds what of a method."""
        return self._latest("tracking", method) / "record.json"

    @property
    def collected(self) -> Path:
        """Folder of what came back from MLflow, all that the analysis reads of runs."""
        return self._latest("collected")

    @property
    def report(self) -> Path:
        """Folder of tables, figures, report and transcripts."""
        return self._latest("report")
