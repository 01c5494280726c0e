"""Intervals of differences cover the truth as often as they say, at the sizes of real studies."""

from dataclasses import replace

import pytest
from crossed_studies import Model, coverage

from analysis.statistics.intervals import crossed_effect

PAPER = Model(((0.6,), (0.3,)), cases=(1268, 150, 536), runs=(3, 3))
CLINIC = (400, 400, 400, 400)
ONE_BASE = Model(((1.5,), (1.3,)), cases=CLINIC, runs=(3, 3))
NEAR = Model(((1.7, 1.7, 1.5), (1.7, 1.7, 1.6)), cases=CLINIC, runs=(5, 5))  # and Executed-local
FAR = replace(NEAR, levels=((1.7, 1.7, 1.5), (0.5, 0.2, 0.5)), ratio=2)  # as PCQC and ATPO
STUDIES = {
    "paper, three runs": PAPER,
    "clinic, three runs": ONE_BASE,
    "clinic-full": NEAR,
    "clinic-full, far": FAR,
    "eight runs": replace(NEAR, runs=(8, 8)),
    "eight runs, paired": replace(NEAR, runs=(8, 8), alike=0.5),
}


@pytest.mark.parametrize("run_sd", [0.08, 0.16])
@pytest.mark.parametrize("study", STUDIES)
def test_runs_as_far_apart_as_the_papers_or_twice(study, run_sd):
    percent = coverage(replace(STUDIES[study], run_sd=run_sd), 4000, crossed_effect)
    assert 94 <= percent <= 96


@pytest.mark.parametrize("run_sd", [0.04, 0.08, 0.16])
def test_at_an_equal_budget(run_sd):
    """One benchmark: its cases weigh more beside the runs, of which the same holds as below."""
    percent = coverage(replace(NEAR, cases=(400,), run_sd=run_sd), 4000, crossed_effect)
    assert 94 <= percent <= 98


@pytest.mark.parametrize("study", STUDIES)
def test_runs_half_as_far_apart(study):
    """What other runs would add is not taken below zero: where it is little, intervals are wide."""
    assert 94 <= coverage(replace(STUDIES[study], run_sd=0.04), 4000, crossed_effect) <= 97.5
