"""Outcomes that are all alike are no certainty: exact bounds, and `too few to say`.

`n` equal outcomes are seen with a chance of `q ** n`, `q` the share of outcomes that are so. At
2.5 % on each side `q` is at least `0.025 ** (1 / n)`; others lie anywhere in the metric's range.
"""

import numpy as np
import pytest
from scipy import stats

from analysis.continuation import mean_over_states, paired_gain
from analysis.statistics.intervals import (
    Effect,
    Sample,
    crossed_effect,
    effect_over_cases,
    effect_over_runs,
)
from analysis.statistics.verdicts import judge
from analysis.table import EXACT, Column, Range, Row, Table, difference, with_exactness
from pcqc_study.paired import paired_average, paired_comparison


def sample(value, runs=3, cases=(6,), reach=100.0, bases=1):
    """A method whose outcomes are all the same."""
    letters = tuple("ABCDEFGH"[:runs]) * bases
    named = tuple(f"base {b}" for b in range(bases) for _ in range(runs))
    outcomes = tuple(np.full((runs * bases, count), float(value)) for count in cases)
    return Sample(outcomes, letters, named, reach=reach)


def test_no_successes_in_either_is_the_exact_interval_and_too_few_to_say():
    """Six cases: at most 1 - 0.025^(1/6) = 45.926 % of others may differ, either way."""
    effect = crossed_effect(sample(0), sample(0))
    assert (effect.low, effect.high) == pytest.approx((-45.926, 45.926), abs=5e-4)
    known = stats.binomtest(0, 6).proportion_ci(method="exact")
    assert effect.high == pytest.approx(100 * known.high)
    assert effect.p == 1
    (judged,) = judge([effect], [2.0])
    assert judged.verdict == "too few to say"
    assert effect.runs_to_decide is None
    assert effect.detectable == np.inf


def test_all_successes_against_none_is_the_sign_test():
    """Six of six: p = 2 / 2^6, and the difference is at least 100 - 2 x 45.926."""
    effect = crossed_effect(sample(100), sample(0))
    assert effect.p == pytest.approx(2 / 2**6) == stats.binomtest(6, 6).pvalue
    assert (effect.low, effect.high) == pytest.approx((8.148, 100), abs=5e-4)
    assert judge([effect], [2.0])[0].verdict == "supported"
    others = [effect, *[Effect(0.3, 1.0, 60.0)] * 4]
    assert judge(others, [2.0] * 5)[0].verdict == "nominal (unadjusted) p < 0.05"
    assert judge([crossed_effect(sample(0), sample(100))], [2.0])[0].verdict == "contradicted"


@pytest.mark.parametrize("cases", range(1, 13))
def test_the_interval_leaves_out_zero_where_the_exact_test_decides(cases):
    first, second = np.ones(cases, bool), np.zeros(cases, bool)
    compared = paired_comparison(first, second)
    effect = effect_over_cases([dict.fromkeys(map(str, range(cases)), 100.0)], reach=100.0)
    assert (compared.low, compared.high) == pytest.approx((effect.low, effect.high))
    assert compared.p == pytest.approx(effect.p) == stats.binomtest(cases, cases).pvalue
    assert (compared.low > 0) == (compared.p < 0.05) == (cases >= 6)
    assert compared.high == 100
    assert (judge([effect], [2.0])[0].verdict == "too few to say") == (cases < 6)


def test_enough_equal_outcomes_are_equivalent():
    """Of 400 cases at most 0.918 % of others differ; 2 points beyond zero have 0.98^400."""
    effect = crossed_effect(sample(100, cases=(400,)), sample(100, cases=(400,)))
    assert (effect.low, effect.high) == pytest.approx((-0.918, 0.918), abs=5e-4)
    assert effect.p_beyond(2.0) == pytest.approx(0.98**400)
    assert judge([effect], [2.0])[0].verdict == "equivalent"
    assert judge([effect], [0.5])[0].verdict == "too few to say"
    assert crossed_effect(sample(100), sample(0)).p_beyond(150.0) == 0  # beyond the range


def test_the_smallest_benchmark_bounds_a_mean_over_benchmarks_and_base_models():
    effect = crossed_effect(*[sample(0, cases=(50, 9, 20), bases=2)] * 2)
    assert effect.high == pytest.approx(100 * (1 - 0.025 ** (1 / 9)))
    assert [each.difference for each in effect.by_base.values()] == [0, 0]


def test_methods_that_agree_case_by_case_are_bounded_too():
    """Outcomes differ from case to case, but between the methods on none."""
    outcomes = 100.0 * (np.random.default_rng(0).random((3, 30)) < 0.5)
    twins = [Sample((outcomes,), tuple("ABC"), reach=100.0) for _ in range(2)]
    single = [Sample((outcomes[:1],), ("A",), reach=100.0) for _ in range(2)]
    known = effect_over_cases([dict.fromkeys(range(30), 0.0)], reach=100)
    for effect in (crossed_effect(*single), known):
        assert effect.high == pytest.approx(100 * (1 - 0.025 ** (1 / 30)))
    assert crossed_effect(*twins).standard_error > 0  # runs of both differ from case to case


def test_rounding_is_no_variance():
    third = 100 / 3
    effect = crossed_effect(sample(third, runs=7, cases=(11,)), sample(0.1, runs=7, cases=(11,)))
    assert effect.constant
    assert effect.high == pytest.approx(
        effect.difference + (1 - 0.025 ** (1 / 11)) * (100 - effect.difference)
    )


def test_a_metric_of_unknown_range_says_nothing():
    effect = crossed_effect(sample(4, reach=np.inf), sample(3, reach=np.inf))
    assert (effect.low, effect.high, effect.p) == (-np.inf, np.inf, 1)
    assert judge([effect], [0.25])[0].verdict == "too few to say"
    turns = crossed_effect(sample(4, reach=10), sample(3, reach=10))
    assert (turns.low, turns.high) == pytest.approx((1 - 0.45926 * 11, 1 + 0.45926 * 9), abs=1e-4)


def test_equal_runs_are_so_many_outcomes():
    effect = effect_over_runs([[80.0] * 3], [[60.0] * 5], reach=100.0)
    share = 1 - 0.025 ** (1 / 3)
    assert (effect.low, effect.high) == pytest.approx((20 - share * 120, 20 + share * 80))
    assert effect.p == 1  # 2 x (1 - 20 / 120)^3 is more


def test_a_state_alone_has_nearly_the_whole_range():
    """A single gain of -18.75 points: 97.5 % of others may lie anywhere from -100 to 100."""
    gain = paired_gain(np.array([50.0]), np.array([68.75]))
    assert (gain.value, gain.interval.exact) == (-18.75, True)
    low, high = -18.75 - 0.975 * 81.25, -18.75 + 0.975 * 118.75
    assert (gain.interval.low, gain.interval.high) == pytest.approx((low, high))
    mean = mean_over_states(np.full(9, 100.0))
    assert (mean.interval.low, mean.interval.high) == pytest.approx((100 * 0.025 ** (1 / 9), 100))
    between = mean_over_states(np.full(2, 0.5), -1, 1)
    share = 1 - 0.025**0.5
    assert (between.interval.low, between.interval.high) == pytest.approx(
        (0.5 - 1.5 * share, 0.5 + 0.5 * share)
    )


def test_an_average_of_benchmarks_without_a_discordant_case_is_exact():
    pairs = [(np.ones(n, bool), np.ones(n, bool)) for n in (4, 9)]
    average = paired_average(pairs, [paired_comparison(*pair) for pair in pairs])
    shares = [1 - 0.025 ** (1 / n) for n in (4, 9)]
    assert average.high == pytest.approx(100 * sum(shares) / 2) == -average.low


@pytest.mark.parametrize("share", [0.02, 0.2, 0.5])
@pytest.mark.parametrize("cases", [3, 8, 30])
def test_where_nothing_varies_the_interval_misses_the_truth_at_most_so_often(cases, share):
    """By enumeration: all outcomes alike are seen with (1 - share)^n; misses have 2.5 % at most."""
    missed = 0.0
    for value, chance in ((0.0, 1 - share), (100.0, share)):
        truth = 100 * share
        mean = mean_over_states(np.full(cases, value))
        missed += chance**cases * (not mean.interval.low <= truth <= mean.interval.high)
    assert missed <= 0.025 + 1e-12


def test_values_that_differ_keep_the_bootstrap():
    rng = np.random.default_rng(5)
    first, second = (rng.random((2, 60)) < [[0.7], [0.5]]).astype(bool)
    compared = paired_comparison(first, second)
    assert (compared.low, compared.high, compared.interval.exact) == (LOW, HIGH, False)


LOW, HIGH = -1.6666666666666607, 33.333333333333336  # as before there were exact bounds


def test_a_table_says_where_an_interval_is_exact():
    effect = crossed_effect(sample(0), sample(0))
    columns = (Column("a", "A", numeric=False), Column("d", "D"), Column("i", "95% CI"))
    exact = Table("t", "T.", "C.", columns, (Row("r", ("x", *difference(effect))),))
    assert with_exactness(exact).notes == (EXACT,)
    assert "too few to say" in EXACT
    usual = Table("t", "T.", "C.", columns, (Row("r", ("x", *difference(Effect(1, 1, 9)))),))
    assert with_exactness(usual) == usual
    assert isinstance(usual.cell("r", "i"), Range)
