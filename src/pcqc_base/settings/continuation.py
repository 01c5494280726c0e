"""The continuation study, and which differences of all runs would not matter."""

from typing import Annotated

from pydantic import Field
from pydantic.dataclasses import dataclass

from pcqc_base.settings.models import Judge
from pcqc_base.settings.types import STRICT, Count, Name, Positive

START = "shared_sft"  # the method whose weights every trained run starts from


@dataclass(frozen=True, config=STRICT)
class Ungrounded:
    """Further states, at which the clinic's patient is made to give some answers without grounds.

    They test the filter of grounded answers, and nothing else is read from them.
    """

    share: Annotated[float, Field(gt=0, le=1)]  # of answers to candidates
    states: Count  # of the development cases that come after those of the other states


@dataclass(frozen=True, config=STRICT)
class Continuation:
    """Does utility predict downstream success (`app:credit_analysis`)?"""

    method: str = "pcqc"  # whose policy asks and continues, at its selected checkpoint
    run: str = "A"
    early: Count | None = None  # an update of that run whose checkpoint is studied in the same way
    reference: str | None = START  # a method studied in the same way, its first run
    states: Count = 128  # development cases, each at its initial state
    # questions fixed at each state, the first of them the executed one
    candidates: Annotated[int, Field(ge=2, le=100)] = 4
    continuations: Count = 8  # of each candidate
    seed: int = 0
    # models that judge whether answers are grounded; the frozen scorer where none is named
    judges: dict[Name, Judge] = Field(default_factory=dict)
    review: str | None = None  # CSV of manual judgements on answers, which override the judges'
    ungrounded: Ungrounded | None = None


@dataclass(frozen=True, config=STRICT)
class Equivalence:
    """Differences that would not matter, fixed before a study is run; `docs/analysis.md`."""

    points: Positive = 2.0  # of accuracy
    turns: Positive = 0.25  # inquiry turns per consultation
