"""Settings of the jobs that need the clinic's exact values; `tasks.py` has those of the others."""

from dataclasses import dataclass

from pcqc.recipes.tasks import RolloutSettings
from pcqc.settings.data import Benchmark

# Where a doctor can lose points (`pcqc.clinic.lost_points`).
PLACES = ("asking", "remembering", "concluding", "stopping")


@dataclass(frozen=True)
class LostPointsSettings(RolloutSettings):
    """Of the split of lost points, on the first `cases` of the development benchmark.

    Attributes:
        course: at every checkpoint, as the first run of a method is split; else at the last alone.
    """

    evaluation_seed: int
    development: str
    benchmark: Benchmark
    cases: int
    course: bool
