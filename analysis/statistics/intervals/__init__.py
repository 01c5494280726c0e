"""Intervals of differences of methods: by what is random, runs and cases, runs, or cases.

`Effect` has the ends. `pcqc_study.intervals_over_cases` resamples cases: it has the intervals of a
single mean, and of two checkpoints on the same cases.
"""

from analysis.statistics.intervals.effect import MOST_RUNS, Effect
from analysis.statistics.intervals.over_runs_and_cases import Sample, crossed_effect
from analysis.statistics.intervals.over_runs_or_cases import effect_over_cases, effect_over_runs

__all__ = [
    "MOST_RUNS",
    "Effect",
    "Sample",
    "crossed_effect",
    "effect_over_cases",
    "effect_over_runs",
]
