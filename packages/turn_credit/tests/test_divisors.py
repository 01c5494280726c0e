"""Gains divided by a deviation or not: whose gradient that is, exact over all groups of a state."""

from itertools import product

import numpy as np
import pytest

from turn_credit.arithmetic import same_state_credit


def expected_gradient(chances, utilities, size, divide, pooled=0.0):
    """E[1/K sum_i A_i grad log pi(x_i)] of a softmax in one state, over all groups of K."""
    chances, utilities, total = map(np.asarray, (chances, utilities, np.zeros(len(chances))))
    for group in product(range(len(chances)), repeat=size):
        credits = same_state_credit(utilities[list(group)], divide, 0.0, pooled)
        for action, credit in zip(group, credits, strict=True):
            score = np.eye(len(chances))[action] - chances
            total = total + np.prod(chances[list(group)]) * credit * score / size
    return total


def cosine(one, other):
    return np.dot(one, other) / (np.linalg.norm(one) * np.linalg.norm(other))


@pytest.mark.parametrize("size", [2, 3, 4])
def test_undivided_gains_are_unbiased_for_the_gradient_of_expected_utility(size):
    """d E[u] / d logit_a = pi_a (u_a - E[u]); here E[u] = 0.5 + 0.06 + 0.08 = 0.64."""
    chances, utilities = [0.5, 0.3, 0.2], [1.0, 0.2, 0.4]
    exact = [0.5 * 0.36, 0.3 * -0.44, 0.2 * -0.24]
    assert expected_gradient(chances, utilities, size, "none") == pytest.approx(exact, abs=1e-12)


@pytest.mark.parametrize("difference", [0.8, 0.003])
def test_divided_gains_of_two_questions_do_not_know_how_much_better_one_is(difference):
    """With two candidates: p (1 - p) / sqrt 2; with four: a sum over how many are better."""
    p, utilities = 0.3, [0.1 + difference, 0.1]
    two = expected_gradient([p, 1 - p], utilities, 2, "group")[0]
    assert two == pytest.approx(0.3 * 0.7 / 2**0.5, rel=1e-3)
    # k good ones of four: chances 0.4116, 0.2646, 0.0756; sqrt(3 k (4 - k) / 4) / 4 each.
    four = 0.4116 * 1.5 / 4 + 0.2646 * 3**0.5 / 4 + 0.0756 * 1.5 / 4
    assert expected_gradient([p, 1 - p], utilities, 4, "group")[0] == pytest.approx(four, rel=1e-3)
    undivided = expected_gradient([p, 1 - p], utilities, 4, "none")[0]
    assert undivided == pytest.approx(0.3 * 0.7 * difference)


def test_divided_gains_point_elsewhere_once_there_are_three_questions():
    """Of two candidates the ranks alone count: (1, 0, -1), beside (0.367, 0.267, -0.633)."""
    chances, utilities = [1 / 3] * 3, [1.0, 0.9, 0.0]
    divided = expected_gradient(chances, utilities, 2, "group")
    assert cosine(divided, [1.0, 0.0, -1.0]) == pytest.approx(1, abs=1e-6)
    exact = expected_gradient(chances, utilities, 2, "none")
    assert cosine(divided, exact) == pytest.approx(1 / (2 * 0.60667) ** 0.5, abs=1e-4)
