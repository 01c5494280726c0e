"""Intervals of differences cover the truth as often as they say, at the sizes of real studies."""

import pytest
from crossed_studies import Model, coverage

from analysis.statistics.crossed import crossed_effect

PAPER = Model(((0.6,), (0.3,)), cases=(1268, 150, 536), runs=3)
ONE_BASE = Model(((1.5,), (1.3,)), cases=(1000, 150, 536, 139), runs=3)
FULL = Model(((1.5, 1.8), (1.3, 1.7)), cases=(1000, 150, 536, 139), runs=8)


@pytest.mark.parametrize("run_sd", [0.04, 0.08, 0.16])
@pytest.mark.parametrize("alike", [0.0, 0.5], ids=["unpaired", "paired"])
def test_at_the_sizes_of_clinic_full(run_sd, alike):
    model = Model(FULL.levels, FULL.cases, FULL.runs, run_sd, alike)
    assert 94 <= coverage(model, 3000, crossed_effect) <= 96


@pytest.mark.parametrize("run_sd", [0.04, 0.08, 0.16])
@pytest.mark.parametrize("model", [PAPER, ONE_BASE], ids=["paper", "clinic"])
def test_with_three_runs_of_one_base_model(model, run_sd):
    drawn = Model(model.levels, model.cases, model.runs, run_sd)
    assert 94 <= coverage(drawn, 6000, crossed_effect) <= 96
