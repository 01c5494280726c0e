"""A finished run beside the settings of its study, as the mirror writes it."""

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from urllib.parse import urlencode

from pcqc_base.system.files import digest, sha256_file
from pcqc_base.system.manifest import MANIFEST, checked, read_manifest
from pcqc_study.graph import Jobs
from pcqc_study.runs import Run
from pcqc_study.study_file import START, Study

# Kind of a job -> where its files lie in MLflow.
PLACES = {"train": "training", "evaluate": "evaluation", "continuation": "continuation"}
BESIDE = {"select": "evaluation/selection.json", "grounding": "continuation/grounding.csv"}


@dataclass(frozen=True, repr=False)
class FinishedRun(Run):
    """One run of a method of a study."""

    study: Study

    @property
    def title(self) -> str:
        """Such as `PCQC, run A`."""
        return f"{self.study.method(self.method).title}, run {self.run}"

    @property
    def transcripts(self) -> str:
        """Address of the page that shows its consultations, from where the study was run."""
        chosen = urlencode({"method": self.method, "run": self.run})
        return f"{self.study.results}/transcripts/index.html#{chosen}"

    @cached_property
    def at_start(self) -> dict:
        """How Shared SFT, from which training starts, did; empty where the run is not trained."""
        return at_start(self.study) if self.training else {}

    @property
    def started(self) -> int:
        """Milliseconds since 1970: when the first of its jobs began."""
        return milliseconds((self.training or self.evaluation)["begun"])

    @property
    def ended(self) -> int:
        """Milliseconds since 1970: when its evaluation had finished."""
        return milliseconds(self.evaluation["finished"])

    @cached_property
    def files(self) -> dict[str, Path]:
        """Path in MLflow -> checked file, of all that is here but weights.

        Raises:
            UserError: a file is not the one that its manifest describes.
        """
        files: dict[str, Path] = {}
        for kind, place in PLACES.items():
            if kind not in self.folders:
                continue
            folder = self.folders[kind]
            kept = {name: checked(folder / name) for name in self.here(kind)}
            files |= {f"{place}/{name}": kept[name] for name in sorted(kept)}
            files[f"{place}/{MANIFEST}"] = folder / MANIFEST
        for kind, artifact in BESIDE.items():
            if kind in self.folders:
                files[artifact] = checked(self.folders[kind] / Path(artifact).name)
        return files

    @cached_property
    def sha256(self) -> dict[str, str]:
        """Path in MLflow -> SHA-256."""
        return {artifact: sha256_file(path) for artifact, path in self.files.items()}

    @cached_property
    def contents(self) -> str:
        """Digest of its files: a run with equal contents is in MLflow once."""
        return digest(self.sha256)

    @property
    def duration(self) -> int:
        """Milliseconds from its start to its end, waiting included."""
        return max(0, self.ended - self.started)

    @cached_property
    def groups(self) -> list[dict]:
        """The run's candidate groups; none for a method that draws none."""
        return list(self.rows("train", "candidate_groups.jsonl"))


def at_start(study: Study) -> dict:
    """How Shared SFT did on the development benchmark.

    Empty where it is not evaluated yet, which nobody who asks waits for.
    """
    letters = study.methods[START].runs
    if not letters:
        return {}
    job = Jobs(study).job("evaluate", START, letters[0])
    if not job.manifest.exists():
        return {}
    return read_manifest(job.path)["benchmarks"].get(study.development, {})


def milliseconds(time_stamp: str) -> int:
    """Milliseconds since 1970 of a time as `machine.now` writes it."""
    return round(1000 * datetime.fromisoformat(time_stamp).timestamp())
