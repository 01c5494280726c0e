"""What is said of credits where values are known: ranks, regret, intervals, luck, by hand."""

import numpy as np
import pytest

from turn_credit.ranking import (
    apart,
    association,
    differing,
    idle_share,
    luck,
    over_clusters,
    rank_correlation,
    ranks,
    regret,
    with_interval,
)


def test_equal_values_share_the_mean_of_their_ranks():
    assert ranks([3.0, 1.0, 3.0, 2.0]).tolist() == [3.5, 1.0, 3.5, 2.0]
    assert rank_correlation([1.0, 2, 3], [[10.0, 20, 30], [3.0, 2, 1], [5.0, 5, 5]]).tolist() == [
        1.0,
        -1.0,
        0.0,
    ]


def test_regret_is_what_the_favourite_costs():
    assert regret(np.array([[0.0, 1.0, 1.0]]), np.array([[0.9, 0.6, 0.5]])) == pytest.approx([35])
    assert differing(np.array([[0.5, 0.5], [0.5, 0.6]])).tolist() == [False, True]


def test_a_cluster_counts_once_however_many_states_it_has():
    own = over_clusters([1.0, 1.0, 1.0, 0.0], ["a", "a", "a", "b"])
    assert (own.mean, own.low, own.high, own.count) == (0.5, 0.0, 1.0, 4)
    rng = np.random.default_rng(0)
    own = over_clusters(rng.normal(2.0, 1.0, 400), np.arange(400))
    assert own.high - own.low == pytest.approx(2 * 1.96 / 20, rel=0.1)
    assert np.isnan(over_clusters([], []).mean)


def test_luck_is_the_variance_between_draws():
    states = np.arange(12.0).reshape(1, 3, 4)
    assert luck(np.repeat(states, 5, axis=0)) == pytest.approx(0)
    assert luck(np.random.default_rng(0).normal(size=(8, 200, 4))) == pytest.approx(100, abs=3)
    assert luck(np.zeros((2, 3, 4))) is None


def test_idle_candidates_count_where_others_can_tell_something():
    idle = np.array([[True, False], [True, True]])
    assert apart(idle).tolist() == [[True, False], [False, False]]
    assert idle_share(np.array([[[1.0, 0.0], [9.0, 0.0]]]), idle) == 100
    assert idle_share(np.array([[[1.0, 1.0], [9.0, 0.0]]]), idle) == 50


def test_p_is_the_share_of_orders_that_are_as_far():
    own, p = association([1, 2, 3, 4], [10, 20, 30, 40])
    assert own.mean == pytest.approx(1)
    assert p == pytest.approx(2 / 24, abs=0.01)  # its own order and the reverse
    assert np.isnan(own.low)  # nothing is known of how much a perfect order varies


def test_an_interval_of_a_correlation_holds_the_true_one_as_often_as_it_says():
    """Of normal pairs of twelve, whose Spearman's correlation is known of Pearson's."""
    rng, pearson = np.random.default_rng(0), 0.6
    true = 6 / np.pi * np.arcsin(pearson / 2)
    first, noise = rng.normal(size=(2, 2000, 12))
    second = pearson * first + np.sqrt(1 - pearson**2) * noise
    every = [with_interval(float(own), 12) for own in rank_correlation(first, second)]
    assert 0.93 <= np.mean([own.low < true < own.high for own in every]) <= 0.98
