"""Broken inputs: each is a ValueError that names the group, the place and the remedy."""

import math

import numpy as np
import pytest

from turn_credit import (
    CREDITS,
    Group,
    ProcessGroup,
    Term,
    beliefs_of,
    credit,
    credit_update,
    pcqc,
    same_state_credit,
    token_advantages,
    turn_spans,
)


@pytest.fixture
def own():
    """Registers credits that are gone after the test."""
    before = dict(CREDITS)
    yield credit
    CREDITS.clear()
    CREDITS.update(before)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"rewards": [0, math.nan]}, "rewards of consultation 1 is nan: leave it out"),
        ({"rewards": [math.inf]}, "rewards of consultation 0 is inf"),
        ({"rewards": [[0, 1]]}, "rewards has other dimensions: give one number for each"),
        ({"rewards": [0], "beliefs": [0.5]}, "beliefs must be a row of numbers for each"),
        ({"rewards": [0], "beliefs": [[[0.5]]]}, "beliefs has other dimensions: give a row of"),
        (
            {"rewards": [0, 1], "beliefs": [[0.5], [0.2, math.inf]]},
            "beliefs of consultation 1, turn 1 is inf: a belief is a probability",
        ),
        (
            {"rewards": [0], "beliefs": [[0.5, -2.3]]},
            "beliefs of consultation 0, turn 1 is -2.3: .* `beliefs_of`",
        ),
        ({"rewards": [0], "values": [[0, math.inf]]}, "turn 1 is inf: give None where it is not"),
        ({"rewards": [0], "turn_rewards": [[1, math.nan]]}, "turn_rewards of .* 0, turn 1 is nan"),
        ({"rewards": [0, 1], "turns": [2, 0]}, r"consultation 1 has no turn \(turns\); leave it"),
        ({"rewards": [1], "beliefs": [[]]}, r"consultation 0 has no turn \(beliefs\); leave it"),
        ({"rewards": [1], "turns": [2.5]}, "turns must be whole numbers"),
        ({"utilities": [[0.1, 0.2], []]}, r"state 1 has no candidate \(utilities\); leave it out"),
        (
            {"utilities": [[0.1, 0.2], [0.3, math.nan]]},
            "utilities of state 1, candidate 1 is nan: leave it out",
        ),
        ({"utilities": [[0.1]], "baselines": [math.nan]}, "baselines of state 0 is nan"),
        ({"continued": [[math.inf, 1]]}, "continued of state 0, candidate 0 is inf"),
        ({"rewards": [0], "tokens": [[3, math.nan]]}, "tokens of consultation 0, turn 1 is nan"),
        ({"rewards": [0], "implicit": [[math.nan]]}, "implicit of consultation 0, turn 0 is nan"),
    ],
)
def test_a_group_refuses_what_is_no_number_of_its_place(fields, message):
    with pytest.raises(ValueError, match=message):
        ProcessGroup(**fields)
    with pytest.raises(ValueError, match=r"^group 'case-7': "):
        ProcessGroup(**fields, name="case-7")


def test_utilities_in_two_dimensions_are_rows():
    """They once ended in numpy's "truth value" beside baselines."""
    group = Group(utilities=np.array([[0.5, 0.2], [0.4, 0.9]]), baselines=np.array([0.2, 0.5]))
    executed = CREDITS["executed_local"](group)
    # Gains 0.3 and -0.1: mean 0.1, deviation sqrt(0.08).
    assert np.array(executed) == pytest.approx(np.array([[1, 0], [-1, 0]]) * 0.5**0.5, rel=1e-5)


def test_a_misspelt_divisor_is_refused():
    with pytest.raises(ValueError, match="divide 'groups' is none of group, none, update, shrunk"):
        same_state_credit([0.1, 0.2], "groups")
    with pytest.raises(ValueError, match="group 0: divide 'groups' is none of"):
        credit_update("pcqc", [Group(utilities=[[0.1, 0.2]])], divide="groups")


@pytest.mark.parametrize("divide", ["update", "shrunk"])
def test_the_update_s_deviation_is_of_all_its_groups(divide):
    groups = [Group(utilities=[[0.1, 0.5, 0.9]]), Group(utilities=[[0.21, 0.19]])]
    (first,), (second,) = credit_update("pcqc", groups, divide=divide)
    # Squares 0.32 and 0.0002 over 2 + 1 degrees of freedom; the first state's own: 0.16.
    pooled = 0.3202 / 3
    own = pooled + (0.16 if divide == "shrunk" else 0)
    assert first == pytest.approx([-0.4 / own**0.5, 0, 0.4 / own**0.5], rel=1e-5)
    own = pooled + (0.0002 if divide == "shrunk" else 0)
    assert second == pytest.approx([0.01 / own**0.5, -0.01 / own**0.5], rel=1e-5)


def test_what_is_not_known_is_refused_with_its_place_or_stays_nan():
    groups = [
        Group([1, 0], beliefs=[[0.2, 0.5], [0.2, 0.3]]),
        Group([1, 0], beliefs=[[0.2, 0.5], [None, 0.3]], name="case-7"),
    ]
    message = r"group 1 \('case-7'\): credit 'mt_grpo' of consultation 0, turn 0 is nan: .*\"nan\""
    with pytest.raises(ValueError, match=message):
        credit_update("mt_grpo", groups)
    first, second = credit_update("mt_grpo", groups, unknown="nan")
    assert np.isfinite([*first[0], *first[1]]).all()
    assert [np.isnan(row).tolist() for row in second] == [[True, False], [True, False]]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: credit_update("pqcq", []), "no credit is called 'pqcq'; known are .*pcqc"),
        (lambda: credit_update("atpo", []), "'atpo' is of nodes: call it with a Tree"),
        (lambda: credit_update("grpo", Group([1], turns=[1])), "give a list of groups"),
        (
            lambda: credit_update("igpo", [Group([1], turns=[1])]),
            "group 0: this credit needs `beliefs`",
        ),
        (lambda: credit_update("grpo", [Group([1, 0])]), "group 0: this credit needs `turns`"),
        (
            lambda: credit_update(
                "executed_local",
                [
                    Group(utilities=[[0.1]], baselines=[0.1]),
                    Group(utilities=[[0.1]], name="case-7"),
                ],
            ),
            r"group 1 \('case-7'\): this credit needs `baselines`",
        ),
    ],
)
def test_an_update_that_cannot_be_credited_says_which_group(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ([np.zeros(3)], "'mine' returns 1 rows for 2 consultations; return one for each"),
        (
            [np.zeros(3), np.zeros(3)],
            r"'mine' returns an array of shape \(3,\) for consultation 1, which has 2 turns",
        ),
        ([np.zeros(3), 0.0], r"'mine' returns an array of shape \(\) for consultation 1"),
    ],
)
def test_an_own_credit_returns_a_number_for_each_turn(own, result, message):
    @own("Mine", "turns")
    def mine(group):
        return result

    group = Group([0, 1], turns=[3, 2])
    with pytest.raises(ValueError, match=message):
        mine(group)
    with pytest.raises(ValueError, match=f"group 0: credit {message}"):
        credit_update("mine", [group])


def test_an_own_credit_across_the_update_reads_any_field_of_any_group(own):
    @own("Mine", "questions", scope="update")
    def mine(group):
        mean = np.mean(np.concatenate(group.read("continued")))
        return [np.asarray(row) - mean for row in group.continued]

    groups = [ProcessGroup(continued=[[1.0, 0.0]]), ProcessGroup(continued=[[0.0, 0.0], [1.0]])]
    first, second = credit_update("mine", groups)
    assert [row.tolist() for row in first] == [pytest.approx([0.6, -0.4])]
    assert [row.tolist() for row in second] == [pytest.approx([-0.4, -0.4]), pytest.approx([0.6])]

    @own("Tokens", "turns", scope="update")
    def tokens(group):
        return group.read("tokens")

    groups = [ProcessGroup([1], tokens=[[3, 4]]), ProcessGroup([0], tokens=[[5]])]
    assert [row[0].tolist() for row in credit_update("tokens", groups)] == [[3, 4], [5]]


def test_a_built_in_credit_is_not_replaced(own):
    with pytest.raises(ValueError, match=r"'pcqc' is PCQC of turn_credit.questions; give the"):

        @own("Mine", "questions")
        def pcqc(group):
            return group.read("utilities")

    # A cell of a notebook that is run again registers its own credit anew.
    for factor in (1, 2):

        @own("Mine", "questions")
        def mine(group):
            return [factor * row for row in group.read("utilities")]  # noqa: B023

        assert credit_update("mine", [Group(utilities=[[1.0]])])[0][0] == [factor]


def test_the_credits_of_the_package_are_those_of_its_names():
    assert CREDITS["pcqc"].function is pcqc.__wrapped__


@pytest.mark.parametrize(
    ("term", "message"),
    [
        (Term([(0, 1, 3)], [math.nan]), "credit of tokens 1 to 3 of row 0 is nan; leave the span"),
        (Term([(0, 1, 3), (0, 2, 4)], [1.0, 1.0]), "tokens 2 to 4 of row 0 are in a term twice"),
        (Term([(0, 1, 3)], [1.0, 2.0]), "2 credits for 1 spans"),
        (Term([(2, 1, 3)], [1.0]), "leaves a batch of 2 rows"),
        (Term([(0, 2, 5)], [1.0]), "leaves a batch whose row 0 has 4 tokens"),
    ],
)
def test_a_term_that_does_not_fit_is_refused(term, message):
    with pytest.raises(ValueError, match=message):
        token_advantages((2, 4), [term])


def test_a_mask_with_another_number_of_turns_is_refused():
    mask = [[1, 1, 0, 1], [0, 1, 1, 1]]
    with pytest.raises(ValueError, match=r"row 1 of the mask has 1 runs .* for 2 turns; number"):
        turn_spans(mask, [2, 2])
    with pytest.raises(ValueError, match="the mask has 2 rows, and `turns` 3"):
        turn_spans(mask, [2, 1, 1])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: beliefs_of([[0.4]]), "consultation 0, turn 0: 0.4 is no log-probability"),
        (lambda: beliefs_of([[-1.0], [math.nan]]), "consultation 1, turn 0: nan is no"),
        (lambda: beliefs_of([[-1.0]], [0]), r"consultation 0 has log-prob.* of shape \(1,\)"),
        (lambda: beliefs_of([[[-1.0, -2.0]]], [2]), "2 options, and no option 2"),
        (lambda: beliefs_of([[[-math.inf] * 2]], [0]), "no option is possible"),
    ],
)
def test_what_is_no_log_probability_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
