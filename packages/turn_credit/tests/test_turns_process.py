"""Credits with a process reward, each against a table worked out by hand."""

import numpy as np
import pytest

from turn_credit import Group, ProcessGroup, a2tgpo, arew, critiques_of, infopo, itpo, trace

# Two consultations of a case: three turns, then two. The second is right.
REWARDS = [0, 1]
Z = 0.5**0.5  # of the rewards by the sample's deviation; by the population's it is 1


def close(credits, expected):
    assert [len(row) for row in credits] == [len(row) for row in expected]
    for row, other in zip(credits, expected, strict=True):
        assert row == pytest.approx(other, abs=1e-5)


def test_a2tgpo_compares_gains_at_one_turn_and_divides_by_the_root_of_their_number():
    # Gains 0.3, -0.1 | 0.6. At turn 0: -1 and 1; at turn 1 one gain alone: 0.
    group = Group(REWARDS, beliefs=[[0.2, 0.5, 0.4], [0.2, 0.8]])
    close(a2tgpo(group), [[-0.3 / 2**0.5 - 1, -1, -1], [1.3, 1]])
    # A third one, of three turns, gives turn 1 something to compare with: 0 against -0.1.
    more = Group([0, 1, 0.5], beliefs=[[0.2, 0.5, 0.4], [0.2, 0.8], [0.2, 0.5, 0.5]])
    z = 2**-0.5  # gains 0.3, 0.6, 0.3: mean 0.4, deviation sqrt(0.02): -z, 2z, -z
    first = 0.3 * (-z - 0.5 * 1) / 2**0.5
    rows = a2tgpo(more, discount=0.5)
    assert rows[0] == pytest.approx([first - 1.5**0.5, -0.3 - 1.5**0.5, -(1.5**0.5)], abs=1e-4)
    assert rows[1] == pytest.approx([0.3 * 2 * z + 1.5**0.5, 1.5**0.5], abs=1e-4)


def test_trace_credits_what_a_turn_takes_off_the_way_to_the_answer():
    # With offset 1: missing e^2, e, e^0 and e^0.5: taken 1, 1, -0.5. z(R) = -1 | 1.
    missing = np.exp([2.0, 1.0, 0.0, 0.5])
    group = Group(REWARDS, beliefs=[np.exp(1 - missing), [0.3]])
    settings = {"reach": 2, "discount": 0.5, "offset": 1.0, "weight": 0.1, "terminal": 3.0}
    # Averages over two turns at 1 : 1/2, and the outcome from where the end is within two turns.
    turns = [1.0, (1 - 0.25) / 1.5 - 3 * 0.25, -0.5 - 3 * 0.5]
    close(trace(group, **settings), [[-1 + 0.1 * turn for turn in (*turns, 0)], [1]])


def test_arew_gives_the_fewer_tokens_the_whole_bonus():
    # First: 2 tokens up, 6 down: +0.1 and -0.1 / 3. Second: no turn down, so nothing.
    group = ProcessGroup(REWARDS, tokens=[[2, 4, 2], [5, 5]], critiques=[[1, -1, -1], [1, 0]])
    close(arew(group), [[0.1 - Z, -0.1 / 3 - Z, -0.1 / 3 - Z], [Z, Z]])
    # Each turn as one token: one up, two down.
    alone = ProcessGroup(REWARDS, critiques=[[1, -1, -1], [1, -1]])
    close(arew(alone, size=1), [[1 - Z, -0.5 - Z, -0.5 - Z], [1 + Z, -1 + Z]])


def test_a_critique_is_the_direction_in_which_the_belief_moved():
    close(critiques_of([[0.2, 0.5, 0.4, 0.4], [0.9]]), [[1, -1, 0, 0], [0]])


def test_itpo_compares_a_turn_with_the_mean_of_consultations_means():
    # Means 0.2 and 0.5: m = 0.35, factor 2. Less m: -0.25, -0.15, -0.05 | 0.35, -0.05... doubled.
    group = ProcessGroup(REWARDS, implicit=[[0.1, 0.2, 0.3], [0.7, 0.3]])
    close(itpo(group), [[-0.9, -0.4, -0.1], [0.6, -0.1]])
    assert itpo(ProcessGroup([1], implicit=[[0.1, 0.2]]))[0].tolist() == [0, 0]


def test_itpo_deals_the_outcome_out_by_a_softmax():
    # The wrong one has nothing to deal out; the right one 3/4 and 1/4 at log 3. m = 0.25.
    group = ProcessGroup(REWARDS, implicit=[[0.5, 0.1], [0.4 * np.log(3), 0.0]])
    close(itpo(group, temperature=0.4), [[-1, -0.5], [1, 0]])


def test_infopo_weighs_shifts_by_tokens_and_by_how_alike_the_outcomes_are():
    # Rates 1, 2 | 4, of 2, 1 and 1 tokens: 1, 1, 2, 4: mean 2, deviation sqrt(2).
    shifts, tokens = [[2.0, 2.0, 0.0], [4.0, 0.0]], [[2, 1, 3], [1, 2]]
    alike = ProcessGroup([1, 1], shifts=shifts, tokens=tokens)
    close(infopo(alike), [[-0.05 / 2**0.5, 0, 0], [0.1 / 2**0.5, 0]])
    # Outcomes that differ close the gate: sigma(-0.70711 / 0.05) is below 1e-6.
    close(infopo(ProcessGroup(REWARDS, shifts=shifts, tokens=tokens)), [[-Z, -Z, -Z], [Z, Z]])
    half = 1 / (1 + np.exp(Z))
    rows = infopo(ProcessGroup(REWARDS, shifts=shifts, tokens=tokens), weight=1, temperature=1)
    close(rows, [[-half / 2**0.5 - Z, -Z, -Z], [2**0.5 * half + Z, Z]])


def test_infopo_counts_every_turn_as_one_token_where_none_are_given():
    # Shifts 1 and 3: mean 2, deviation sqrt(2).
    close(
        infopo(ProcessGroup([1, 1], shifts=[[1.0, 0.0], [3.0, 0.0]])),
        [[-0.05 / 2**0.5, 0], [0.05 / 2**0.5, 0]],
    )
