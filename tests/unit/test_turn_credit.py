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
from pcqc.settings import Assumptions
from pcqc.training.policy import Policy
from pcqc_peers.answer_shifts import answer_shifts
from pcqc_peers.c3 import C3
from pcqc_peers.continuations import after_candidates, before_turns, continue_all
from pcqc_peers.turn_credit import TurnCredit
from pcqc_peers.turn_process import TurnProcess
from turn_credit import Group, ProcessGroup, a2tgpo, arew, gigpo, igpo, infopo, mt_grpo, tips

CASES = [make_case(0)]
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
    kind = TurnProcess if credit in TurnProcess.WORDS else TurnCredit
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


def test_the_plan_counts_the_readings_of_a_belief_before_each_turn():
    """Two consultations of three turns, the last of which answers; a response has 10 tokens."""
    assumed = Assumptions(prompt_tokens=100, inquiries=2.0, action_tokens=10, answer_tokens=5)

    def counted(kind=TurnProcess, **settings):
        method = kind("Peer", "its module", terminal_group=2, **settings)
        work = method.work(assumed)
        return work.responses, work.scores, work.reread_tokens

    assert counted(turn_credit="arew") == (6, 6, 0)
    assert counted(turn_credit="a2tgpo", belief="actor") == (6, 0, 60)
    assert counted(TurnCredit, turn_credit="gigpo") == (6, 0, 0)
    # Prompts of 100 tokens, answers of 5: 2 * (100 + 2 * 5 + 3 * 10), and four times 5 + 10 more.
    assert counted(turn_credit="infopo") == (6, 0, 280 + 60)


def test_the_plan_counts_consultations_that_are_played_on():
    """From before the three turns of two consultations, and after two candidates at two states."""
    assumed = Assumptions(inquiries=2.0)
    groups = {"terminal_group": 2, "continuations": 1}
    vineppo = TurnCredit("VinePPO", "its module", turn_credit="vineppo", **groups).work(assumed)
    # 3 turns from the state that both share, 2 and 1 from the later ones of each.
    assert vineppo.trajectories == 2 + 5
    assert vineppo.responses == 2 * 3 + 3 + 2 * (2 + 1)
    assert vineppo.answers == 2 * 2 + 2 + 2 * (1 + 0)
    c3 = C3("C3", "its module", question_group=2, **groups).work(assumed)
    # A second candidate in each turn of the first; 2 and 1 turns go on from each of two.
    assert (c3.trajectories, c3.scores) == (2 + 4, 0)
    assert c3.responses == 2 * 3 + 3 + 2 * (2 + 1)
    assert c3.answers == 2 * 2 + 2 + 2 * (1 + 0)


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
