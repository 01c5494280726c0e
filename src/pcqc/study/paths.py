"""Where a study keeps its files: jobs, tracking, analysis and the workflow ask here."""

from dataclasses import dataclass
from pathlib import Path

from pcqc.study import Study


@dataclass(frozen=True)
class Paths:
    """Files of a study below its results folder."""

    root: Path

    @classmethod
    def of(cls, study: Study) -> "Paths":
        return cls(study.results)

    @property
    def data(self) -> Path:
        return self.root / "data"

    @property
    def train_cases(self) -> Path:
        return self.data / "train.jsonl"

    @property
    def conversations(self) -> Path:
        return self.data / "sft.jsonl"

    @property
    def instruction(self) -> Path:
        """The actor's system message, where the study takes it from its published cases."""
        return self.data / "instruction.txt"

    @property
    def world(self) -> Path:
        return self.data / "world.json"

    def converted(self, name: str) -> Path:
        """Cases (or SFT rows) of a published file, all that could be converted."""
        return self.data / "converted" / f"{name}.jsonl"

    def card(self, name: str) -> Path:
        """Data card of a published file."""
        return self.converted(name).with_suffix(".card.json")

    @property
    def overlap(self) -> Path:
        """Folder of the audit of what training and evaluation share."""
        return self.data / "overlap"

    def excluded(self, name: str) -> Path:
        """Converted cases of the training (`train`) or of a benchmark that a study cannot use."""
        return self.data / f"{name}.exclusions.csv"

    def cases(self, benchmark: str) -> Path:
        return self.data / f"{benchmark}.jsonl"

    def prepared(self, name: str) -> Path:
        """The first file of a set of `pcqc prepare`: cases, the system message or the summary."""
        files = {"instruction": self.instruction, "manifest": self.data / "manifest.json"}
        return files.get(name, self.cases(name))

    def model(self, role: str) -> Path:
        """Folder of `base`, `actor` (Shared SFT), `patient`, or another of a study's models.

        The scorer is the frozen `base`, unless the study gives it weights of its own.
        """
        return self.root / "models" / role

    def run(self, method: str, run: str) -> Path:
        return self.root / "runs" / method / run

    def evaluation(self, method: str, run: str) -> Path:
        return self.root / "evaluation" / method / run

    def continuation(self, method: str, run: str) -> Path:
        return self.root / "continuation" / method / run

    def credit_quality(self, method: str, run: str) -> Path:
        return self.root / "credit_quality" / method / run

    def lock(self, job: str) -> Path:
        """What a job, such as `train pcqc A`, holds while it runs."""
        return self.root / "locks" / job.replace(" ", "-")

    def review_sheet(self, method: str, run: str) -> Path:
        """Answers to be reviewed by a person, with the judges' votes."""
        return self.root / "review" / f"{method}-{run}.csv"

    def tracking(self, method: str) -> Path:
        """Which MLflow run holds what of a method."""
        return self.root / "tracking" / f"{method}.json"

    @property
    def store(self) -> Path:
        """Says that the MLflow store is prepared, and which experiment is the study's."""
        return self.root / "tracking" / "store.json"

    @property
    def collected(self) -> Path:
        """Folder of what came back from MLflow, all that the analysis reads of runs."""
        return self.root / "collected"
