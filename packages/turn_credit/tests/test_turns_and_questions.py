"""Published credits, each against a table worked out by hand."""

import itertools

import numpy as np
import pytest

from turn_credit import (
    Group,
    expected_probability,
    gigpo,
    igpo,
    leave_one_out,
    mt_grpo,
    pcqc,
    pooled_variance,
    reward_to_go,
    same_state_credit,
    share_alone,
    small_spread_share,
    tips,
    vineppo,
)
from turn_credit.returns import at_each_turn, to_go

# Two consultations of a case: three turns, then two. The second is right.
BELIEFS = [np.array([0.2, 0.5, 0.4]), np.array([0.2, 0.8])]
REWARDS = np.array([0.0, 1.0])


def close(credits, expected):
    assert [len(row) for row in credits] == [len(row) for row in expected]
    for row, other in zip(credits, expected, strict=True):
        assert row == pytest.approx(other, abs=1e-5)


def test_igpo_normalises_gains_and_outcomes_apart_and_returns_to_go():
    # Gains 0.3, -0.1, 0.6: mean 0.26667, the population's deviation sqrt(0.24667 / 3) = 0.28674;
    # normalised 0.11625, -1.27872, 1.16247. Outcomes: mean 0.5, deviation 0.5: -1 and 1.
    expected = [[0.11625 - 1.27872 - 1, -1.27872 - 1, -1], [1.16247 + 1, 1]]
    close(igpo(Group(REWARDS, beliefs=BELIEFS)), expected)


def test_igpo_discounts_what_comes_later():
    expected = [[0.11625 + 0.5 * (-1.27872 - 0.5), -1.27872 - 0.5, -1], [1.16247 + 0.5, 1]]
    close(igpo(Group(REWARDS, beliefs=BELIEFS), discount=0.5), expected)


def test_tips_pays_back_what_a_question_adds_to_the_potential():
    # Changes 1 and 2, mean 1.5: c = 0.15 / 1.5 = 0.1. To go: R - 0.1 Phi = 0.3, 0.2 | 1.3, 1.1;
    # means at the turns: 0.8 and 0.65.
    beliefs = [np.exp([-3.0, -2.0]), np.exp([-3.0, -1.0])]
    close(tips(Group(REWARDS, beliefs=beliefs), size=0.15), [[-0.5, 0.2 - 0.65], [0.5, 1.1 - 0.65]])


def test_tips_without_any_change_leaves_the_reward():
    beliefs = [np.exp([-1.0, -1.0])] * 2
    close(tips(Group(REWARDS, beliefs=beliefs)), [[-0.5, -0.5], [0.5, 0.5]])


def test_vineppo_takes_the_change_of_value_standardised_across_the_update():
    # Changes 0.25, -0.75 | 0.5, 0.0: mean 0, sample deviation sqrt(0.875 / 3) = 0.54006.
    values = [np.array([0.5, 0.75]), np.array([0.5, 1.0])]
    close(vineppo(Group(REWARDS, values=values)), [[0.46291, -1.38873], [0.92582, 0.0]])


def test_vineppo_without_one_value_still_credits_the_other_turns():
    # Without V before the first one's second turn: changes 0.5 and 0.0 alone, whose deviation is
    # sqrt(0.125).
    values = [np.array([0.5, np.nan]), np.array([0.5, 1.0])]
    first, second = vineppo(Group(REWARDS, values=values))
    assert np.isnan(first).all()
    assert second == pytest.approx([0.25 / 0.125**0.5, -0.25 / 0.125**0.5], abs=1e-5)


def test_gigpo_adds_the_comparison_among_turns_at_one_state():
    # Episodes: -0.70711, 0.70711. At the shared opening the returns are 0 and 0.5: the same again.
    # The other states are alone.
    states = [["opening", "x"], ["opening", "y"]]
    close(
        gigpo(Group(REWARDS, states=states), weight=0.1, discount=0.5),
        [[-0.777817, -0.707107], [0.777817, 0.707107]],
    )
    assert share_alone(Group(REWARDS, states=states)) == 0.5


def test_gigpo_compares_turns_of_different_numbers_too():
    # `x` is reached at the first turn of one and at the second of the other: returns 0 and 1.
    close(
        gigpo(Group(REWARDS, states=[["x", "p"], ["o", "x"]]), discount=0.5),
        [[-1.414214, -0.707107], [0.707107, 1.414214]],
    )


def test_mt_grpo_normalises_each_turn_over_consultations():
    # First turns: 0.3 and 0.6 become -0.70711 and 0.70711; the second gain stands alone.
    z = 2**-0.5
    close(mt_grpo(Group(REWARDS, beliefs=BELIEFS)), [[-z - z, -z, -z], [z + z, z]])
    close(
        mt_grpo(Group(REWARDS, beliefs=BELIEFS), discount=0.5),
        [[-z - z / 4, -z / 2, -z], [1.5 * z, z]],
    )


def test_mt_grpo_takes_the_environment_s_own_rewards_of_turns():
    # First turns: 1 and 3; the second gain stands alone. The last turn's reward is the outcome's.
    z = 2**-0.5
    rewards = [[1.0, None, 9.0], [3.0, 9.0]]
    close(mt_grpo(Group(REWARDS, turn_rewards=rewards)), [[-z - z, -z, -z], [z + z, z]])
    own = [np.array([1.0, 0.0, 9.0]), np.array([3.0, 9.0])]
    mt_grpo(Group(REWARDS, turn_rewards=own))
    assert own[0].tolist() == [1, 0, 9]


def test_reward_to_go_is_compared_with_the_others_that_had_the_turn():
    # To go: 3, 2, 2 | 1 | 4, 3. The third turn has no other.
    group = Group(turn_rewards=[[1, None, 2], [1], [1, 3]])
    close(reward_to_go(group), [[0.5, -1, 2], [-2.5], [2, 1]])
    # To go at a half: 1.5, 1, 2 | 1 | 2.5, 3.
    close(reward_to_go(group, discount=0.5), [[-0.25, -2, 2], [-1], [1.25, 2]])


CHOICES = (0.4, 0.7)  # probability of another turn, after the first and after the second
EARNED = (1.0, 2.0, 0.5)  # by a turn, in half of all cases; else nothing


def played():
    """(probability, rewards of turns, gradient of log p by each choice's logit) of all courses."""
    for turns in (1, 2, 3):
        chance, gradient = 1.0, np.zeros(2)
        for t, on in enumerate(CHOICES[:turns]):
            stays = t < turns - 1
            chance *= on if stays else 1 - on
            gradient[t] = 1 - on if stays else -on
        for earned in itertools.product((0, 1), repeat=turns):
            rewards = [e * r for e, r in zip(earned, EARNED, strict=False)]
            yield chance / 2**turns, np.array(rewards), gradient


@pytest.mark.parametrize("size", [1, 2, 3])
def test_reward_to_go_leaves_the_policy_gradient_where_the_policy_decides_when_to_stop(size):
    """verl #7244, in numbers: all groups of a policy that plays at most three turns.

    A turn earns half of EARNED, so the sum's gradient by the logits is
    p(1-p)(r_1 + q r_2)/2 and p q(1-q) r_2/2. A mean at each later turn loses part of it.
    """
    courses = list(played())
    p, q = CHOICES
    exact = [p * (1 - p) * (EARNED[1] + q * EARNED[2]) / 2, p * q * (1 - q) * EARNED[2] / 2]

    def expected(credit):
        total = np.zeros(2)
        for group in itertools.product(courses, repeat=size):
            chance = np.prod([share for share, *_ in group])
            credits = credit([rewards for _, rewards, _ in group])
            for (_, _, gradient), own in zip(group, credits, strict=True):
                reached = min(len(own), 2)
                total[:reached] += chance * gradient[:reached] * own[:reached] / size
        return total

    unbiased = expected(lambda rewards: reward_to_go(Group(turn_rewards=rewards)))
    np.testing.assert_allclose(unbiased, exact, rtol=1e-12)

    def at_each(rewards):
        rows = at_each_turn([row.copy() for row in rewards], lambda v: v - v.mean())
        return [to_go(row) for row in rows]

    assert (expected(at_each) < np.array(exact) - 0.01).all()


def test_leave_one_out_compares_with_the_mean_of_the_others():
    assert leave_one_out([1, 0, 0, 0.5]) == pytest.approx([5 / 6, -0.5, -0.5, 1 / 6])
    assert leave_one_out([0.7]) == [0]


def test_credit_from_small_spreads_is_a_share_of_the_absolute_credit():
    """(0.9 + 0.9) of 1.8 + 1.8 + 0.4; the spread of 0.01 itself is not small."""
    credits = [[0.9, -0.9], [1.0, -0.8, 0.0], [0.2, -0.2]]
    assert small_spread_share([0.003, 0.3, 0.01], credits) == pytest.approx(0.45)
    assert small_spread_share([0.003], [[0.0, 0.0]]) == 0
    assert small_spread_share([], []) == 0


# Utilities of two states: means 0.5 and 0.2, variances 0.16 + 0 + 0.16 over 2 and 0.0002 over 1.
STATES = [[0.1, 0.5, 0.9], [0.21, 0.19]]


def test_gains_are_divided_by_the_deviation_of_the_update_or_of_both():
    pooled = 0.3202 / 3
    assert pooled_variance(STATES) == pytest.approx(pooled)
    first, second = (same_state_credit(row, "update", 0, pooled) for row in STATES)
    assert first == pytest.approx([-0.4 / pooled**0.5, 0, 0.4 / pooled**0.5], rel=1e-5)
    assert second == pytest.approx([0.01 / pooled**0.5, -0.01 / pooled**0.5], rel=1e-5)
    first, second = (same_state_credit(row, "shrunk", 0, pooled)[0] for row in STATES)
    assert first == pytest.approx(-0.4 / (pooled + 0.16) ** 0.5, rel=1e-5)
    assert second == pytest.approx(0.01 / (pooled + 0.0002) ** 0.5, rel=1e-5)


def test_undivided_gains_are_gains_over_the_others():
    assert same_state_credit(STATES[0], "none") == pytest.approx([-0.6, 0, 0.6])
    assert same_state_credit(STATES[1], "none") == pytest.approx([0.02, -0.02])
    assert same_state_credit([0.4], "none") == [0]


@pytest.mark.parametrize("divide", ["group", "none", "update", "shrunk"])
def test_a_spread_below_the_threshold_earns_nothing(divide):
    """The second state's deviation is 0.0141."""
    first, second = pcqc(Group(utilities=STATES), divide, threshold=0.02)
    assert first[2] > 0
    assert second.tolist() == [0, 0]
    assert pcqc(Group(utilities=STATES), divide)[1][0] > 0


def test_no_states_have_no_variance():
    assert pooled_variance([]) == 0


def test_leave_one_out_ranks_as_same_state_credit_does():
    values = np.random.default_rng(0).random(5)
    ratio = leave_one_out(values) / same_state_credit(values)
    assert ratio == pytest.approx(np.full(5, ratio[0]))


def test_the_expected_probability_averages_over_options_and_answers():
    # Present 0.5 * 0.9 + 0.5 * 0.1; then the belief is 0.9 in what is true in 0.9 of cases.
    assert expected_probability([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]]) == pytest.approx(
        0.9**2 + 0.1**2
    )


def test_a_question_that_says_nothing_leaves_the_belief():
    belief = [0.7, 0.2, 0.1]
    nothing = expected_probability(belief, np.full((2, 3), 0.5))
    assert nothing == pytest.approx(0.7**2 + 0.2**2 + 0.1**2)


def test_no_question_is_expected_to_hurt():
    rng = np.random.default_rng(1)
    for _ in range(200):
        belief, present = rng.dirichlet(np.ones(4)), rng.random(4)
        value = expected_probability(belief, [present, 1 - present])
        assert value > (belief**2).sum() - 1e-12
