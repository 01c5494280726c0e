"""Intervals of differences cover the truth as often as they say, at the sizes of real studies."""

from dataclasses import replace

import pytest
from crossed_studies import Model, coverage

from analysis.statistics.crossed import crossed_effect

PAPER = Model(((0.6,), (0.3,)), cases=(1268, 150, 536), runs=(3, 3))
CLINIC = (400, 400, 400, 400)
ONE_BASE = Model(((1.5,), (1.3,)), cases=CLINIC, runs=(3, 3))
NEAR = Model(((1.5, 1.8), (1.3, 1.7)), cases=CLINIC, runs=(2, 2))  # as PCQC and Executed-local
FAR = replace(NEAR, levels=((1.5, 1.8), (0.6, 0.8)))  # as PCQC and GRPO


@pytest.mark.parametrize("run_sd", [0.04, 0.08, 0.16])
@pytest.mark.parametrize("model", [NEAR, FAR], ids=["near", "far"])
def test_with_two_runs_of_two_base_models(model, run_sd):
    """As `clinic-full` has them. So few runs make intervals a little too wide."""
    assert 94 <= coverage(replace(model, run_sd=run_sd), 3000, crossed_effect) <= 97


@pytest.mark.parametrize("run_sd", [0.04, 0.08, 0.16])
@pytest.mark.parametrize("alike", [0.0, 0.5], ids=["unpaired", "paired"])
def test_with_eight_runs_of_two_base_models(run_sd, alike):
    model = replace(NEAR, runs=(8, 8), run_sd=run_sd, alike=alike)
    assert 94 <= coverage(model, 3000, crossed_effect) <= 96


@pytest.mark.parametrize("run_sd", [0.04, 0.08, 0.16])
@pytest.mark.parametrize("model", [PAPER, ONE_BASE], ids=["paper", "clinic"])
def test_with_three_runs_of_one_base_model(model, run_sd):
    assert 94 <= coverage(replace(model, run_sd=run_sd), 6000, crossed_effect) <= 96
