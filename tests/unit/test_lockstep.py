"""The simulation of rollouts, worked out by hand."""

import numpy as np
import pytest

from benchmarks.lockstep import Rollouts, Speed, drawn, main

ACTOR, PATIENT = Speed(slots=2, step=1.0), Speed(slots=2, step=0.5)
SHORT, LONG = [[(2, 2)], [(1, 0)]], [[(10, 2)], [(1, 0)]]


def seconds(dialogues, free: bool, actor: Speed = ACTOR, patient: Speed = PATIENT) -> float:
    return Rollouts(dialogues, [actor], patient, free).play().seconds


def test_in_lockstep_every_phase_lasts_as_long_as_its_longest():
    """Ten steps of replies, two of answers, one of the final answers."""
    assert seconds([SHORT, LONG], free=False) == pytest.approx(10 + 2 * 0.5 + 1)


def test_alone_the_short_dialogue_ends_beside_the_long_one():
    """Its reply ends at 2, its answer at 5 (steps of 1 and 0.5 in turn), its last reply at 6.

    The long reply then has 2 + 2 + 1 of its 10 tokens, so it ends at 11; its answer takes 1 and its
    last reply 1 more.
    """
    assert seconds([SHORT, LONG], free=True) == pytest.approx(11 + 1 + 1)


def test_alone_nothing_is_gained_where_all_are_equal():
    assert seconds([SHORT] * 2, free=True) == seconds([SHORT] * 2, free=False)


def test_what_finds_no_slot_waits():
    """Three replies of 4 tokens in two slots: two at once, then the third."""
    dialogues = [[[(4, 0)]]] * 3
    assert seconds(dialogues, free=True) == pytest.approx(8)
    assert seconds(dialogues, free=True, actor=Speed(3, 1.0)) == pytest.approx(4)


def test_more_sequences_make_a_step_longer_and_prompts_hold_it_up():
    actor = Speed(slots=2, step=1.0, each=0.25, start=3.0)
    assert seconds([[[(2, 0)]]] * 2, free=True, actor=actor) == pytest.approx(2 * 3 + 2 * 1.5)


def test_only_the_executed_response_goes_on():
    """The other one is answered all the same."""
    turn = [(2, 2), (10, 2)]
    played = Rollouts([[turn, [(1, 0)]]], [ACTOR], PATIENT, free=True)
    played.play()
    assert played.actors[0].count == 3
    assert played.patient.count == 2
    assert played.open == 0


def test_full_batches_are_all_of_the_time_where_nothing_waits():
    full = Rollouts([[[(8, 0)]]] * 2, [ACTOR], PATIENT, free=True).play()
    half = Rollouts([[[(8, 0)]]], [ACTOR], PATIENT, free=True).play()
    assert (full.full_batches, half.full_batches) == pytest.approx((1.0, 0.5))


def test_every_response_is_drawn_and_long_tails_cost_less_alone():
    dialogues = drawn(np.random.default_rng(0), 64, 4, 4)
    actors, patient = [Speed(44, 1.0)] * 2, Speed(64, 0.5)
    found = {free: Rollouts(dialogues, actors, patient, free) for free in (True, False)}
    times = {free: rollouts.play().seconds for free, rollouts in found.items()}
    responses = sum(len(turn) for dialogue in dialogues for turn in dialogue)
    for rollouts in found.values():
        assert sum(engine.count for engine in rollouts.actors) == responses
    assert times[True] < times[False]


def test_the_benchmark_prints_what_it_finds(capsys):
    assert main(["--updates", "1"]) == 0
    assert '"pcqc: lockstep by free running"' in capsys.readouterr().out
