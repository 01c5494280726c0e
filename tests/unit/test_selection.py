"""Checkpoints are chosen on the development benchmark, and nothing else can be."""

import copy

import pytest

from pcqc.evaluation.selection import levelled_off, select
from pcqc_base.errors import UserError

DEVELOPMENT = "clinic_dev"


def checkpoint(update, accuracy, turns=1.0, benchmark=DEVELOPMENT):
    validation = {"benchmark": benchmark, "accuracy": accuracy, "turns": turns, "actor_tokens": 9.0}
    return {"update": update, "path": "x", "validation": validation}


def test_the_most_accurate_is_chosen_and_the_others_say_why():
    rows = [checkpoint(20, 0.5), checkpoint(40, 0.7, 2.0), checkpoint(60, 0.625)]
    before = copy.deepcopy(rows)
    choice = select(DEVELOPMENT, rows)
    assert rows == before
    assert choice["benchmark"] == DEVELOPMENT
    assert choice["selected"] == {"update": 40, "accuracy": 0.7, "turns": 2.0, "actor_tokens": 9.0}
    assert [r["update"] for r in choice["rejected"]] == [20, 60]
    assert choice["rejected"][0]["reason"] == "accuracy 20.00 points below update 40"
    assert choice["rejected"][1]["reason"] == "accuracy 7.50 points below update 40"
    assert select(DEVELOPMENT, rows) == choice


def test_of_equals_the_fewest_turns_then_the_earliest():
    rows = [checkpoint(20, 0.7, 2.0), checkpoint(40, 0.7, 1.5), checkpoint(60, 0.7, 1.5)]
    for order in (rows, rows[::-1]):
        choice = select(DEVELOPMENT, order)
        assert choice["selected"]["update"] == 40
        reasons = {r["update"]: r["reason"] for r in choice["rejected"]}
        assert reasons == {
            20: "equal accuracy, 0.500 more inquiry turns",
            60: "equal accuracy and turns, later than update 40",
        }


@pytest.mark.parametrize("name", ["clinic_wide", "clinic_sparse", "clinic_elsewhere"])
def test_held_out_benchmarks_cannot_select(name):
    with pytest.raises(UserError, match=f"validated on '{name}', not on 'clinic_dev'"):
        select(DEVELOPMENT, [checkpoint(20, 0.5), checkpoint(40, 0.9, benchmark=name)])


def test_a_run_without_checkpoints_is_refused():
    with pytest.raises(UserError, match="no checkpoint to select from"):
        select(DEVELOPMENT, [])


@pytest.mark.parametrize(
    ("accuracies", "expected"),
    [
        ([], False),
        ([0.5, 0.5], False),  # nothing before the last two
        ([0.5, 0.5, 0.5], True),
        ([0.5, 0.5, 0.51], False),  # a gain of exactly one point
        ([0.5, 0.509, 0.509], True),
        ([0.5, 0.6, 0.55], False),  # the last fell, the best of the last two is ten points up
        ([0.5, 0.6, 0.55, 0.58], True),  # the best stands before the last two
        ([0.9, 0.1, 0.5, 0.7], True),  # it has not come back to where it was
    ],
)
def test_validation_has_levelled_off_when_the_last_two_gain_less_than_a_point(accuracies, expected):
    assert levelled_off(accuracies, after=2, points=1.0) is expected
    assert not levelled_off(accuracies, after=0, points=1.0)


def test_a_gain_of_three_points_in_four_hundred_cases_is_one_of_three():
    """As floats, 212/400 - 200/400 is a little more than 0.03, and 100 times 0.29 less than 29."""
    assert not levelled_off([200 / 400, 212 / 400], after=1, points=3.0)
    assert not levelled_off([0.0, 0.29], after=1, points=29.0)
    assert levelled_off([200 / 400, 211 / 400], after=1, points=3.0)
