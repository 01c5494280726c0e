"""From consultations to weighted tokens: which tokens, which advantage, which normaliser."""

import dataclasses

import numpy as np
import pytest
from helpers import PROTOCOL
from scripted_methods import CASES, PCQC, draw, pieces, say

from pcqc.methods.executed_local import ExecutedLocal
from pcqc.methods.grpo import Grpo
from pcqc.methods.sequences import QUESTION, TERMINAL
from pcqc.training.training_sequence import KL, pack_turns, token_counts
from pcqc_base.errors import UserError
from pcqc_study.describe import why, words
from turn_credit.arithmetic import same_state_credit

SAME_STATE_Q1 = dataclasses.replace(PCQC, supervise="executed")
EXECUTED_LOCAL = ExecutedLocal("Executed-local", "executed_local", terminal_group=2)
TERMINAL_ONLY = Grpo("Terminal-only", "grpo", terminal_group=2)


def test_utilities_are_the_scorers_probabilities_of_the_right_option():
    drawn, _ = draw(PCQC)
    assert [group.number for group in drawn.groups] == [0, 1, 0, 1]
    first, second = drawn.groups[:2]
    assert first.baseline == pytest.approx(0.25)
    expected = [0.9 / 1.1, 0.1 / 1.1, 0.4 / 1.1, 0.25]
    assert first.utilities == pytest.approx(expected)
    assert second.baseline == pytest.approx(0.9 / 1.1)
    assert second.utilities == pytest.approx([0.1 / 1.2, 0.9 / 1.2, 0.4 / 1.2, 0.4 / 1.2])


def test_a_final_answer_with_a_question_after_it_is_no_question():
    """It takes part in the comparison with gain 0; its tokens get no question credit."""

    def answering(case, rollout, turn, k):
        if (turn, k) == (0, 1):
            return "Final Answer: B Question: p?"
        return say(case, rollout, turn, k)

    drawn, chat = draw(PCQC, CASES[:1], answering)
    group = drawn.groups[0]
    response = group.turn.responses[1]
    assert (response.action.kind, response.question_start) == ("final", None)
    assert (group.utilities[1], group.gains[1]) == (group.baseline, 0)
    trained = [text for text, _ in pieces(chat, drawn.sequences, QUESTION)]
    assert trained == [f" {q}?<|im_end|>" for q in ("p", "q", "r", "p", "r", "r")]


def test_terminal_credit_covers_all_actor_tokens_of_all_consultations():
    drawn, chat = draw(PCQC)
    advantage = 0.5 / (np.sqrt(0.5) + 1e-6)
    own = ["<think>x</think>Question: p?<|im_end|>", "Question: q?<|im_end|>"]
    endings = ["<think>x</think>Final Answer: B<|im_end|>", "Final Answer: A<|im_end|>"]
    credited = pieces(chat, drawn.sequences, TERMINAL)
    assert [text for text, _ in credited] == [*own, endings[0], *own, endings[1]] * 2
    assert [a for _, a in credited] == pytest.approx([*[advantage] * 3, *[-advantage] * 3] * 2)
    assert [t for t, _ in pieces(chat, drawn.sequences, KL)] == [t for t, _ in credited]
    assert [r.tolist() for r in drawn.rewards] == [[1, 0], [1, 0]]


def test_question_credit_covers_question_tokens_of_executed_and_unexecuted():
    drawn, chat = draw(PCQC)
    first, second = (same_state_credit(g.utilities) for g in drawn.groups[:2])
    expected = [
        (" p?<|im_end|>", first[0]),
        (" q?<|im_end|>", second[0]),
        (" q?<|im_end|>", first[1]),
        (" r?<|im_end|>", first[2]),
        (" p?<|im_end|>", second[1]),
        (" r?<|im_end|>", second[2]),
        (" r?<|im_end|>", second[3]),
    ]
    credited = pieces(chat, drawn.sequences, QUESTION)
    assert [text for text, _ in credited] == [text for text, _ in expected] * 2
    assert [a for _, a in credited] == pytest.approx([a for _, a in expected] * 2)
    assert first[0] > 0 > first[1]


def test_gains_can_be_divided_by_the_deviation_over_the_update():
    """Two cases with the same two groups of four: the mean of the two variances."""
    method = dataclasses.replace(PCQC, divide="update")
    drawn, _ = draw(method)
    first, second = (group.utilities for group in drawn.groups[:2])
    pooled = (first.var(ddof=1) + second.var(ddof=1)) / 2
    expected = (second - second.mean()) / np.sqrt(pooled)
    assert drawn.groups[1].credits == pytest.approx(expected, rel=1e-4)
    (row, *_) = drawn.records()["candidate_groups"]
    derived = why(method, row, row["candidates"][0])
    assert f" / {np.sqrt(pooled):.3f} = +" in derived
    assert derived.endswith(", divided by the deviation over the update.")
    assert words(method).count("divided by the deviation over the update") == 1


def test_a_state_with_a_small_spread_can_be_left_without_credit():
    """Standard deviations of the two groups: 0.312 and 0.276."""
    drawn, _ = draw(dataclasses.replace(PCQC, least_spread=0.3))
    assert [bool(group.credits.any()) for group in drawn.groups[:2]] == [True, False]
    assert drawn.metrics()["credit/zero_group_share"] == 0.5


def test_candidates_continue_the_state_they_were_sampled_at():
    drawn, _ = draw(PCQC)
    turn = drawn.groups[0].turn
    executed, candidate = drawn.sequences[0], drawn.sequences[1]
    length = len(turn.state)
    assert executed.tokens[:length] == candidate.tokens[:length] == turn.state
    assert candidate.tokens[length:] == turn.responses[1].completion.tokens
    assert np.isnan(candidate.engine_logprobs[:length]).all()
    assert (candidate.engine_logprobs[length:] == 0).all()


def test_same_state_q1_keeps_the_credit_and_drops_the_unexecuted():
    """The executed terms of eq:question_objective over their own count (app:same_state_q1)."""
    full, chat = draw(PCQC)
    executed, _ = draw(SAME_STATE_Q1)
    mine = pieces(chat, executed.sequences, QUESTION)
    every = pieces(chat, full.sequences, QUESTION)
    assert mine == every[:2] + every[7:9]
    assert [g.credits[0] for g in executed.groups] == [g.credits[0] for g in full.groups]
    assert not any(g.credits[1:].any() for g in executed.groups)
    assert pieces(chat, executed.sequences, TERMINAL) == pieces(chat, full.sequences, TERMINAL)


def test_executed_local_standardises_gains_across_cases_and_states():
    drawn, chat = draw(EXECUTED_LOCAL)
    gains = np.array([g.gains[0] for g in drawn.groups])
    assert len(gains) == 4
    expected = (gains - gains.mean()) / (gains.std(ddof=1) + 1e-6)
    assert [g.credits[0] for g in drawn.groups] == pytest.approx(expected)
    assert [a for _, a in pieces(chat, drawn.sequences, QUESTION)] == pytest.approx(expected)
    # All candidates are drawn, answered and scored all the same.
    assert all(len(g.utilities) == 4 for g in drawn.groups)
    assert drawn.metrics()["credit/groups"] == 4


def test_terminal_only_samples_no_candidates_and_has_no_question_loss():
    drawn, chat = draw(TERMINAL_ONLY)
    assert all(len(t.responses) == 1 for row in drawn.consultations for c in row for t in c.turns)
    assert set(token_counts(drawn.sequences)) == {TERMINAL, KL}
    full, _ = draw(PCQC)
    assert pieces(chat, drawn.sequences, TERMINAL) == pieces(chat, full.sequences, TERMINAL)


def test_a_case_that_comes_up_twice_in_an_update_is_two_cases():
    """At the end of a pass over the training set the next pass may begin with the same case."""
    twice, chat = draw(PCQC, [CASES[0], CASES[0]])
    once, _ = draw(PCQC, [CASES[0]])
    assert pieces(chat, twice.sequences, QUESTION) == pieces(chat, once.sequences, QUESTION) * 2
    assert token_counts(twice.sequences)[QUESTION] == (2 * token_counts(once.sequences)[QUESTION])


def test_dropped_thinking_starts_a_new_sequence():
    """With the thinking of earlier turns dropped, what the actor saw is what is trained on."""
    rules = dataclasses.replace(PROTOCOL, earlier_thinking="drop")
    drawn, chat = draw(PCQC, CASES[:1], protocol=rules)
    packed = pack_turns(drawn.consultations[0][0].executed)
    # Turn 0 thinks, so turn 1 does not continue it; turn 1 does not think, so turn 2 continues it.
    assert [len(sequence.starts) for sequence in packed] == [1, 2]
    kept, _ = draw(PCQC, CASES[:1])
    assert len(pack_turns(kept.consultations[0][0].executed)) == 1
    for name in (TERMINAL, KL, QUESTION):
        assert pieces(chat, drawn.sequences, name) == pieces(chat, kept.sequences, name)


def test_consultations_without_turns_are_excluded_from_training():
    long = dataclasses.replace(CASES[1], initial="x" * PROTOCOL.prompt_tokens)
    drawn, _ = draw(PCQC, [CASES[0], long])
    alone, _ = draw(PCQC, CASES[:1])
    assert [s.tokens for s in drawn.sequences] == [s.tokens for s in alone.sequences]
    assert [r.tolist() for r in drawn.rewards] == [[1, 0], [0, 0]]
    with pytest.raises(UserError, match=r"every case is longer than protocol\.prompt_tokens"):
        draw(PCQC, [long])


def test_metrics_count_every_actor_token():
    drawn, _ = draw(PCQC)
    metrics = drawn.metrics()
    every = [c for row in drawn.consultations for c in row]
    candidates = [r for c in every for t in c.turns for r in t.responses[1:]]
    own = sum(c.actor_tokens for c in every)
    assert metrics["tokens/actor"] == own / 4
    assert metrics["tokens/actor_all"] == own + sum(len(r.completion.tokens) for r in candidates)
    assert metrics["credit/unparsed_share"] == 1 / 8
    assert metrics["credit/zero_group_share"] == 0
    assert metrics["credit/small_spread_share"] == 0
    assert metrics["credit/distinct_questions_turn_1"] == 3
    assert metrics["credit/distinct_questions_turn_2"] == 3
    assert metrics["turns"] == 2
