"""Peers on scripted consultations: which tokens get which credit, and what a value costs."""

import copy

import numpy as np
import pytest
import torch
from helpers import (
    ROUNDING,
    make_case,
    plain_logprobs,
    scripted_context,
    tiny_model,
)
from learner_material import RL
from scripted_methods import draw, pieces, say

from pcqc.cases.prompts import UNANSWERABLE
from pcqc.consultation import roll_out
from pcqc.methods.base import Services
from pcqc.methods.sequences import TERMINAL
from pcqc.training.policy import Policy
from pcqc_peers.answer_shifts import answer_shifts
from pcqc_peers.continuations import after_candidates, before_turns, continue_all
from pcqc_peers.turn_credit import TurnCredit
from pcqc_peers.turn_process import TurnProcess
from turn_credit import Group, ProcessGroup, a2tgpo, arew, gigpo, igpo, infopo, mt_grpo, tips

CASES = [make_case(0)]
PROCESS = ("a2tgpo", "arew", "infopo")
# The scorer's belief in B before each turn of `say`'s consultations.
BELIEFS = np.array([0.25, 0.9 / 1.1, 0.1 / 1.2])
# Of the responses "<think>x</think>Question: p?", "Question: q?", "<think>x</think>Final Answer: B"
# and "Final Answer: A": a tag, a marker and " A" are one token, as is the end.
TOKENS = [[8, 5, 6], [8, 5, 3]]


@pytest.mark.parametrize(
    ("credit", "expected"),
    [
        ("igpo", lambda r: igpo(Group(r, beliefs=[BELIEFS] * 2))),
        ("tips", lambda r: tips(Group(r, beliefs=[BELIEFS] * 2))),
        ("mt_grpo", lambda r: mt_grpo(Group(r, beliefs=[BELIEFS] * 2))),
        ("a2tgpo", lambda r: a2tgpo(Group(r, beliefs=[BELIEFS] * 2))),
        ("arew", lambda r: arew(ProcessGroup(r, tokens=TOKENS, critiques=[[1, -1, 0]] * 2))),
        # Both consultations come to the same states.
        ("gigpo", lambda r: gigpo(Group(r, states=[["", "p", "pq"]] * 2))),
    ],
)
def test_every_token_of_a_turn_has_the_turn_s_credit(credit, expected):
    kind = TurnProcess if credit in PROCESS else TurnCredit
    drawn, chat = draw(kind("Peer", "its module", terminal_group=2, turn_credit=credit), CASES)
    (rewards,) = drawn.rewards
    assert rewards.tolist() == [1, 0]
    rows = expected(rewards)
    advantages = [advantage for _, advantage in pieces(chat, drawn.sequences, TERMINAL)]
    assert advantages == pytest.approx(np.concatenate(rows))
    assert np.concatenate(drawn.credits[0]) == pytest.approx(np.concatenate(rows))
    assert drawn.metrics()["credit/alone_share"] == 0


class Reader:
    """In a policy's place: a token has the square of the number of answers before it."""

    def __init__(self, chat):
        self.chat = chat

    def logprobs(self, items):
        texts = [self.chat.decode(item.tokens) for item in items]
        self.untold = [text.count(UNANSWERABLE) for text in texts]
        answers = [text.count("No cough.") for text in texts]
        return [np.full(i.selected.sum(), n**2) for i, n in zip(items, answers, strict=True)]


def test_a_turn_s_shift_compares_the_next_response_with_and_without_its_answer():
    """The first answer's: 1 less 0. The second's, to which the first is known: 4 less 1."""

    def right(case, rollout, turn, k):
        return "Final Answer: B" if (rollout, turn) == (1, 2) else say(case, rollout, turn, k)

    context = scripted_context(right, CASES, name="1/update/1")
    services = Services(Reader(context.chat), 1)
    method = TurnProcess("Peer", "turn_process", terminal_group=2, turn_credit="infopo")
    drawn = method.collect_rollouts(services, context, CASES, 1)
    assert services.policy.untold == [0, 1] * 4
    shifts = [[1.0, 3.0, 0.0]] * 2
    rows = infopo(ProcessGroup([1, 1], tokens=TOKENS, shifts=shifts))
    read = pieces(context.chat, drawn.sequences, TERMINAL)
    advantages = [advantage for _, advantage in read]
    assert advantages == pytest.approx(np.concatenate(rows))
    # A shift of 1 in 8 tokens is below the mean, of 3 in 5 above it.
    assert advantages[0] < -0.01 < 0.01 < advantages[1]


def test_shifts_are_the_policy_s_own_log_probabilities():
    context = scripted_context(say, CASES)
    ((first,),) = roll_out(context, CASES, rollouts=1, seed=1, stage="test")
    model = tiny_model(0, len(context.chat.tokenizer))
    (shifts,) = answer_shifts(Policy(copy.deepcopy(model), None, RL), context, [first])
    turn, later = first.turns[:2]
    response = later.executed.completion.tokens
    untold = context.chat.continue_state(
        turn.state,
        turn.executed.completion.tokens,
        "The patient cannot answer this question.",
        "keep",
    )
    told, not_told = (
        plain_logprobs(model, [*state, *response])[len(state) - 1 : -1]
        .gather(1, torch.tensor(response)[:, None])
        .mean()
        for state in (later.state, untold)
    )
    assert shifts[0] == pytest.approx(float(told - not_told), abs=ROUNDING)
    assert abs(shifts[0]) > 100 * ROUNDING
    assert shifts[-1] == 0


def test_a_failed_belief_credits_nothing():
    rows = mt_grpo(Group([1, 0], beliefs=[BELIEFS, np.full(3, np.nan)]))
    assert np.isnan(rows[1][:2]).all()


def test_a_consultation_is_played_on_from_before_any_turn():
    context = scripted_context(say, CASES)
    ((first, second),) = roll_out(context, CASES, rollouts=2, seed=1, stage="test")
    before = before_turns(CASES[0], second)
    assert [len(d.consultation.turns) for d in before] == [0, 1, 2]
    assert [d.state for d in before] == [turn.state for turn in second.turns]
    assert all(d.consultation.ending is None for d in before)
    assert (first.ending, second.ending) == ("answer", "answer")
    assert len({d.lineage for d in [*before, *before_turns(CASES[0], first)]}) == 6


def test_an_ended_dialogue_has_its_own_reward_and_costs_nothing():
    context = scripted_context(say, CASES)
    ((first,),) = roll_out(context, CASES, rollouts=1, seed=1, stage="test")
    (ended,) = after_candidates(context, CASES[0], first, 2)
    played = continue_all(context, [ended], 3, seed=1, stage="test")
    assert (played.values.tolist(), played.consultations, played.sampled_tokens) == ([1.0], 0, 0)
