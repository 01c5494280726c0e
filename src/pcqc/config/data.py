"""Settings of cases: benchmarks and where training cases come from."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pcqc.settings import Count, Share, Some, Whole


@dataclass(frozen=True)
class RawFile:
    """A published file, below the data folder or by its own absolute path."""

    file: str
    format: str | None = None  # a format of `pcqc data convert`; recognised where not given

    @property
    def path(self) -> Path:
        """Where the file should lie on this machine."""
        return data_folder() / self.file


@dataclass(frozen=True)
class Benchmark:
    """An evaluation set and its role: checkpoints are chosen on `development` alone."""

    title: str
    role: Literal["development", "held_out", "independent_source"]
    cases: Count | None = None  # how many to draw (clinic) or to keep; all where not given
    options: Some[Count] = (4,)  # clinic: numbers of options, drawn uniformly
    recorded_facts: Share = 1.0  # clinic: share of the findings that the facts record
    wording: Literal["plain", "reported"] = "plain"  # clinic: how facts are worded
    base_rates: Literal["uniform", "skewed"] = "uniform"  # clinic: of the diseases
    raw: RawFile | None = None  # real data: the published file
    optional: bool = False  # real data: the study goes without it where its file is missing


@dataclass(frozen=True)
class Clinic:
    """The synthetic world; `docs/clinic.md` gives its Bayes figures."""

    diseases: Count
    findings: Count
    typical: Count  # findings typical of each disease
    noise: Share  # probability that a finding departs from its profile
    seed: int
    training_cases: Count
    sft_conversations: Count
    sft_questions: Some[Whole]  # numbers of questions in an SFT conversation, drawn uniformly


@dataclass(frozen=True)
class Data:
    """Where the training of a real study comes from; its benchmarks name their own files."""

    training: Some[RawFile]
    training_cases: Count | None = None  # how many to keep; all where not given
    sft: RawFile | None = None  # released conversations; written from cases where not given
    sft_cases: Count = 256  # training cases set apart to write conversations from
    sft_questions: Some[Whole] = (1, 2, 3)  # in a written conversation, drawn uniformly
    seed: int = 0


def data_folder() -> Path:
    """Where published files lie: the environment's `PCQC_DATA`, else `data/raw`."""
    return Path(os.environ.get("PCQC_DATA") or "data/raw")
