"""Settings of cases: benchmarks and where training cases come from."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Benchmark:
    """An evaluation set and its role: checkpoints are chosen on `development` alone."""

    title: str
    role: Literal["development", "held_out", "independent_source"]
    cases: int | None = None  # how many to draw (clinic) or to keep; all where not given
    options: tuple[int, ...] = (4,)  # clinic: numbers of options, drawn uniformly
    recorded_facts: float = 1.0  # clinic: share of the findings that the facts record
    wording: Literal["plain", "reported"] = "plain"  # clinic: how facts are worded
    base_rates: Literal["uniform", "skewed"] = "uniform"  # clinic: of the diseases


@dataclass(frozen=True)
class Clinic:
    """The synthetic world; `docs/clinic.md` gives its Bayes figures."""

    diseases: int
    findings: int
    typical: int  # findings typical of each disease
    noise: float  # probability that a finding departs from its profile
    seed: int
    training_cases: int
    sft_conversations: int
    sft_questions: tuple[int, ...]  # numbers of questions in an SFT conversation, drawn uniformly
