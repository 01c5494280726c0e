"""Settings of cases: benchmarks and where training cases come from."""

import os
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from pcqc_base.settings.types import STRICT, Share, Some, Title, Whole

Cases = Annotated[int, Field(ge=1, le=1_000_000)]


@dataclass(frozen=True, config=STRICT)
class RawFile:
    """A published file: its path below the data folder, or an absolute path."""

    file: str
    format: str | None = None  # a format of `pcqc data convert`; default: recognised

    @property
    def path(self) -> Path:
        """Where the file should be on this machine."""
        return data_folder() / self.file


@dataclass(frozen=True, config=STRICT)
class Benchmark:
    """An evaluation set and its role: checkpoints are chosen on `development` alone."""

    title: Title
    role: Literal["development", "held_out", "independent_source"]
    # clinic: how many to draw; real data: their number, checked (`data.subset`: how many to draw)
    cases: Cases | None = None
    # clinic: numbers of options, drawn uniformly; clinic_env.world has letters for eight
    options: Some[Annotated[int, Field(ge=2, le=8)]] = (4,)
    recorded_facts: Share = 1.0  # clinic: share of the findings that the facts record
    wording: Literal["plain", "reported"] = "plain"  # clinic: how facts are worded
    base_rates: Literal["uniform", "skewed"] = "uniform"  # clinic: of the diseases
    raw: RawFile | None = None  # real data: the published file
    optional: bool = False  # real data: if its file is missing, the study leaves it out


@dataclass(frozen=True, config=STRICT)
class Clinic:
    """The synthetic world; `docs/clinic.md` gives its Bayes figures."""

    # A training case has four options or more; clinic_env.world has names for sixteen diseases.
    diseases: Annotated[int, Field(ge=4, le=16)]
    complaints: Annotated[int, Field(ge=1, le=6)]
    # how much likelier a complaint is in the half of the diseases that it points to
    complaint_odds: Annotated[float, Field(ge=1)]
    # probability that a disease lacks its sign, and that it shows another's
    noise: Annotated[float, Field(gt=0, lt=0.5)]
    seed: int
    training_cases: Cases
    sft_conversations: Cases
    sft_questions: Some[Whole]  # numbers of questions in an SFT conversation, drawn uniformly
    # which questions the SFT conversations ask; `best` shows how well a model of this size can do
    sft_asks: Literal["random", "best"] = "random"
    # the actor's system message, as its files carry it; `protocol.instruction` goes before it
    instruction: str | None = None
    # numbers of options of training cases and of SFT conversations, drawn uniformly
    training_options: Some[Annotated[int, Field(ge=2, le=8)]] = (4, 5, 6, 7, 8)


@dataclass(frozen=True, config=STRICT)
class Data:
    """Where a real study's training data come from; its benchmarks name their own files."""

    training: Some[RawFile]
    training_cases: Cases | None = None  # their number, checked; with `subset`, how many to draw
    training_sets: dict[str, Cases] = Field(default_factory=dict)  # `data_source` -> its number
    conversations: Cases | None = None  # rows of `sft`, checked
    subset: bool = False  # this and the benchmarks' `cases` are drawn from files that hold more
    sft: RawFile | None = None  # released conversations; default: written from cases
    sft_cases: Cases = 256  # training cases set apart to write conversations from
    sft_questions: Some[Whole] = (1, 2, 3)  # in a written conversation, drawn uniformly
    seed: int = 0


def data_folder() -> Path:
    """Where published files lie: the environment's `PCQC_DATA`, else `data/raw`."""
    return Path(os.environ.get("PCQC_DATA") or "data/raw")
