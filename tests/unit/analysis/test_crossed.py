"""Intervals over runs and cases, and verdicts, against textbook tests and against simulation."""

from dataclasses import replace

import numpy as np
import pytest
from crossed_studies import Model, coverage
from scipy import stats

from analysis.statistics.intervals import (
    Effect,
    Sample,
    crossed_effect,
    effect_over_cases,
    effect_over_runs,
)
from analysis.statistics.verdicts import holm, judge, probability_of_improvement

NO_CASE_EFFECT = np.ones(40)


def of_runs(means, bases=()):
    """A sample whose runs have these means on every case."""
    outcomes = np.outer(means, NO_CASE_EFFECT)
    return Sample((outcomes,), tuple("ABCDEFGH"[: len(means)]), bases)


def test_one_run_of_each_is_the_paired_t_interval():
    first, second = np.random.default_rng(0).random((2, 300)) < [[0.6], [0.5]]
    effect = crossed_effect(Sample((first[None],), ("A",)), Sample((second[None],), ("A",)))
    expected = stats.ttest_rel(first.astype(float), second.astype(float))
    interval = expected.confidence_interval()
    assert (effect.low, effect.high) == pytest.approx((interval.low, interval.high))
    assert effect.p == pytest.approx(expected.pvalue)
    assert effect.random == "case"


def test_runs_that_repeat_on_every_case_give_welchs_error():
    first, second = [50.0, 60, 70], [20.0, 21, 26]
    effect = crossed_effect(of_runs(first), of_runs(second))
    expected = stats.ttest_ind(first, second, equal_var=False)
    assert effect.difference / effect.standard_error == pytest.approx(expected.statistic)
    # Variances of the means 100/3 and 31/9, each of two degrees of freedom.
    one, other = 100 / 3, 31 / 9
    assert effect.freedom == pytest.approx((one + other) ** 2 / ((one**2 + other**2) / 4) - 2)
    assert expected.df < effect.freedom < 4
    assert effect.random == "case and run"


def test_many_runs_of_the_same_letters_are_compared_pairwise():
    first, second = np.random.default_rng(1).normal([[60.0], [55.0]], 3, size=(2, 6))
    effect = crossed_effect(of_runs(first), of_runs(second))
    interval = stats.ttest_rel(first, second).confidence_interval()
    assert (effect.low, effect.high) == pytest.approx((interval.low, interval.high))


def test_a_single_run_varies_as_the_other_methods_runs_do():
    """Four runs have variance 20/3, their mean a quarter of it; the single run has all of it."""
    effect = crossed_effect(of_runs([50.0]), of_runs([40.0, 42, 44, 46]))
    assert effect.standard_error == pytest.approx((20 / 3 * (1 + 1 / 4)) ** 0.5)
    assert effect.random == "case and run"
    assert effect.freedom == pytest.approx(3)
    # What was not drawn, as the model that all runs start from, does not vary.
    start = replace(of_runs([50.0]), drawn=False)
    assert crossed_effect(of_runs([40.0, 42, 44, 46]), start).standard_error == pytest.approx(
        (20 / 3 / 4) ** 0.5
    )


def test_single_runs_vary_as_those_of_other_methods_do():
    """Variances 8 and 2, 1 and 2 degrees of freedom: pooled 4, which each of two runs adds."""
    others = [of_runs([40.0, 44]), of_runs([10.0, 20, 20 + 2**0.5, 20 - 2**0.5], tuple("abbb"))]
    effect = crossed_effect(of_runs([50.0]), of_runs([47.0]), others)
    assert effect.difference == pytest.approx(3)
    assert effect.standard_error == pytest.approx((2 * 4) ** 0.5)
    assert effect.freedom == pytest.approx(3)
    assert effect.random == "case and run"
    # In place of their own, and not for what was not drawn.
    start = replace(of_runs([47.0]), drawn=False)
    effect = crossed_effect(of_runs([50.0, 90]), start, others)
    assert effect.standard_error == pytest.approx((4 / 2) ** 0.5)


def test_base_models_are_fixed_and_count_alike():
    """How far base models lie apart is no part of the error; runs are compared within each."""
    first = of_runs([50.0, 52, 80, 82], ("small", "small", "large", "large"))
    second = of_runs([40.0, 42, 74, 76], ("small", "small", "large", "large"))
    effect = crossed_effect(first, second)
    parts = {base: each.difference for base, each in effect.by_base.items()}
    assert parts == pytest.approx({"small": 10, "large": 6})
    assert effect.difference == pytest.approx(8)
    # Each of four pairs of runs has variance 2, its mean 2/2; the sum of four, a half of each.
    assert effect.standard_error == pytest.approx((4 * (2 / 2) / 4) ** 0.5)
    with pytest.raises(ValueError, match="base models differ"):
        crossed_effect(first, of_runs([40.0, 42]))


def test_one_run_of_a_base_model_varies_as_the_runs_of_the_others():
    bases = ("small", "small", "large", "large")
    first, second = of_runs([50.0, 80, 82], bases[1:]), of_runs([40.0, 42, 74, 76], bases)
    effect = crossed_effect(first, second)
    assert effect.difference == pytest.approx(7.5)
    # A run has variance 2, also where it is alone; the three pairs have means of variance 2/2.
    assert effect.standard_error == pytest.approx((2 / 4 + 3 * (2 / 2) / 4) ** 0.5)


def test_noise_is_counted_once():
    """Without true effects of runs or cases, the variance is that of so many coins.

    What runs seem to add has four degrees of freedom and is not taken below zero, so that it adds
    P(X6 > 4) - P(X4 > 4) = 0.271, X6 and X4 chi-squared. Counted twice, noise would add 1.
    """
    rng = np.random.default_rng(2)
    variances = []
    for _ in range(300):
        coins = [Sample((100.0 * (rng.random((3, 200)) < 0.5),), tuple("ABC")) for _ in "ab"]
        variances.append(crossed_effect(*coins).standard_error ** 2)
    assert np.mean(variances) == pytest.approx(1.271 * 2 * 100**2 * 0.25 / 600, rel=0.08)


def test_interval_covers_the_truth_as_often_as_it_says():
    """A small study of two base models; tests/long has the sizes of real ones."""
    model = Model(((1.5, 1.8), (1.3, 1.7)), cases=(150, 60), runs=(4, 4), run_sd=0.2)
    percent = coverage(model, 400, crossed_effect)
    assert 92.8 <= percent <= 97.2  # two standard errors of so many studies


def test_a_benchmark_of_one_case_decides_nothing():
    effect = crossed_effect(Sample((np.ones((1, 1)),), ("A",)), Sample((np.zeros((1, 1)),), ("A",)))
    assert (effect.low, effect.high, effect.p) == (-np.inf, np.inf, pytest.approx(1))


def test_the_detectable_difference_is_found_four_times_in_five():
    effect = Effect(0.0, 1.5, 60.0)
    power = stats.nct.sf(stats.t.ppf(0.975, 60), 60, effect.detectable / effect.standard_error)
    assert power == pytest.approx(0.8, abs=0.005)


def test_equivalence_is_two_one_sided_tests():
    sample = np.random.default_rng(3).normal(0.2, 1, 50)
    effect = crossed_effect(Sample((sample[None],), ("A",)), Sample((np.zeros((1, 50)),), ("A",)))
    above = stats.ttest_1samp(sample, -0.6, alternative="greater").pvalue
    below = stats.ttest_1samp(sample, 0.6, alternative="less").pvalue
    assert effect.p_beyond(0.6) == pytest.approx(max(above, below))


def test_holm_steps_down():
    """By hand: 4 x 0.01, 3 x 0.02, 2 x 0.022 raised to the one before, 1 x 0.04 likewise."""
    assert holm([0.04, 0.01, 0.02, 0.022]) == pytest.approx([0.06, 0.04, 0.06, 0.06])


@pytest.mark.parametrize(
    ("difference", "error", "verdict"),
    [
        (3, 1, "supported"),
        (-3, 1, "contradicted"),
        (0.1, 0.5, "equivalent"),
        (1.9, 1, "undecided"),
        (0.5, 0.1, "supported"),  # below the margin, and yet a difference
        (0, 0, "too few to say"),  # nothing varied, and of nobody knows how many
        (1, 0, "too few to say"),
    ],
)
def test_verdicts(difference, error, verdict):
    (judged,) = judge([Effect(difference, error, 1000.0)], [2.0])
    assert judged.verdict == verdict


@pytest.mark.parametrize(
    ("differences", "error", "verdict"),
    [
        ((4, 2), 0.5, "supported"),
        ((-4, -2), 0.5, "contradicted"),
        ((7, -1), 0.5, "differs by base model"),
        ((-7, 1), 0.5, "differs by base model"),
        # The second base model's interval, 0.5 +- 0.98, holds zero; the mean's does not.
        ((4, 0.5), 0.5, "not on each base model"),
        ((-0.5, -4), 0.5, "not on each base model"),
        ((1, -1), 0.3, "equivalent"),
        # The mean is certainly closer to zero than 2, the second base model's 1.7 is not.
        ((-1.1, 1.7), 0.3, "undecided"),
        ((3, -3), 0.3, "undecided"),
    ],
)
def test_a_verdict_looks_at_the_interval_on_each_base_model(differences, error, verdict):
    by_base = {name: Effect(d, error, 1000.0) for name, d in zip("ab", differences, strict=True)}
    effect = Effect(sum(differences) / 2, error / 2**0.5, 1000.0, by_base=by_base)
    assert judge([effect], [2.0])[0].verdict == verdict


def test_equivalence_is_tested_on_each_base_model():
    """The largest p of the two decides: 0.8 of its error below the margin, not below it by 3."""
    by_base = {"a": Effect(0.5, 0.5, 1000.0), "b": Effect(-1.6, 0.5, 1000.0)}
    effect = Effect(-0.55, 0.35, 1000.0, by_base=by_base)
    assert effect.p_beyond(2.0) < 0.05
    assert [judge([effect], [margin])[0].verdict for margin in (2.0, 2.5)] == [
        "undecided",
        "equivalent",
    ]


def test_an_effect_on_a_base_model_is_that_of_its_runs_alone():
    rng = np.random.default_rng(5)
    bases = ("small",) * 3 + ("large",) * 4
    pair = [
        Sample((100.0 * (rng.random((7, 60)) < share),), tuple("ABCABCD"), bases)
        for share in (0.7, 0.5)
    ]
    effect = crossed_effect(*pair)
    for base in ("small", "large"):
        alone = crossed_effect(*(sample.on(base) for sample in pair))
        on_base = effect.by_base[base]
        assert (on_base.low, on_base.high) == (alone.low, alone.high)
    assert effect.by_base["large"].runs == 4
    # A single run of a base model varies there as the others do.
    fewer = [
        replace(s, benchmarks=(s.benchmarks[0][2:],), runs=s.runs[2:], bases=bases[2:])
        for s in pair
    ]
    on_small = crossed_effect(*fewer).by_base["small"]
    assert on_small.random == "case and run"


def test_what_is_decided_only_alone_says_so():
    """Of ten comparisons one has p = 0.01: below 5 %, but Holm's p is 0.1."""
    effects = [Effect(2.58, 1, 1000.0), *[Effect(0, 1, 1000.0)] * 9]
    first, *others = judge(effects, [2.0] * 10)
    assert (first.verdict, others[0].verdict) == ("nominal (unadjusted) p < 0.05", "undecided")
    assert first.p == pytest.approx(0.1, rel=0.02)
    assert judge([replace(effects[0], difference=-2.58), *effects[1:]], [2.0] * 10)[0].verdict == (
        "contrary, nominal (unadjusted) p < 0.05"
    )


def test_a_comparison_that_is_not_judged_makes_no_other_harder_to_decide():
    effects = [Effect(2.58, 1, 1000.0), *[Effect(0, 1, 1000.0)] * 9]
    first, *others = judge(effects, [2.0] * 10, [False] + [True] * 9)
    assert (first.verdict, {other.verdict for other in others}) == (
        "supported",
        {"not judged: one run"},
    )
    assert first.p == pytest.approx(0.01, rel=0.02)
    assert {other.p for other in others} == {None}


def test_runs_to_decide_by_simulation():
    """Of studies with so many runs four in five find the difference; with half of them fewer do."""
    rng = np.random.default_rng(0)
    of_one_run, difference = 4.0, 4.0
    effect = Effect(difference, (2 * of_one_run / 3) ** 0.5, 4.0, "case and run", {}, 3, 0.0)
    needed = effect.runs_to_decide

    def share(runs):
        first, second = rng.normal(0, of_one_run**0.5, (2, 4000, runs))
        p = stats.ttest_ind(first + difference, second, axis=1).pvalue
        return (p < 0.05).mean()

    assert share(needed) == pytest.approx(0.8, abs=0.08)
    assert share(needed) >= 0.79
    assert share(needed - 1) < 0.8
    assert replace(effect, over_cases=effect.standard_error**2).runs_to_decide is None


def test_an_effect_over_runs_is_welchs():
    rng = np.random.default_rng(3)
    first, second = rng.normal(60, 5, 3), rng.normal(40, 15, 4)
    effect = effect_over_runs([first], [second])
    welch = stats.ttest_ind(first, second, equal_var=False).confidence_interval()
    assert (effect.low, effect.high) == pytest.approx((welch.low, welch.high))
    # The same runs on a second base model: the same difference, with half of the variance.
    twice = effect_over_runs([first, first], [second, second])
    assert twice.difference == pytest.approx(effect.difference)
    assert twice.standard_error == pytest.approx(effect.standard_error / 2**0.5)
    assert effect_over_runs([first], [second[:1]]) is None


def test_probability_of_improvement_is_rliables():
    """The mean over tasks of Mann and Whitney's U, divided by the number of pairs of runs."""
    tasks = [np.random.default_rng(seed).integers(0, 6, size=(2, 5)) for seed in range(4)]
    expected = [stats.mannwhitneyu(a, b).statistic / 25 for a, b in tasks]
    assert probability_of_improvement(tasks) == pytest.approx(np.mean(expected))
    assert probability_of_improvement([(np.array([1]), np.array([0]))]) is None


def test_a_case_under_two_base_models_is_one_case():
    """By hand: means 2 and 4; a case's part is its distance from each, by twice its cases."""
    effect = effect_over_cases([{"a": 0, "b": 2, "c": 4}, {"b": 3, "c": 6, "d": 3, "a": 4}])
    parts = [-2 / 6 + 0, 0 - 1 / 8, 2 / 6 + 2 / 8, -1 / 8]
    assert effect.difference == 3
    assert effect.standard_error == pytest.approx((sum(p**2 for p in parts) * 4 / 3) ** 0.5)
    assert (effect.freedom, effect.random) == (3, "case")
    one, other = effect.by_base.values()
    assert (one.difference, other.difference) == (2, 4)
    known = stats.ttest_1samp([3, 6, 3, 4], 0).confidence_interval()
    assert (other.low, other.high) == pytest.approx((known.low, known.high))


def test_cases_of_one_base_model_have_students_interval():
    gains = dict(enumerate([1.0, 4.0, 2.5, 0.0, 7.0]))
    effect = effect_over_cases([gains])
    known = stats.ttest_1samp([*gains.values()], 0)
    assert effect.p == pytest.approx(known.pvalue)
    assert [effect.low, effect.high] == pytest.approx([*known.confidence_interval()])
