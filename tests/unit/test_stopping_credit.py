"""Credit of the decision to ask or to conclude: what it is compared with, which tokens have it."""

from dataclasses import replace

import pytest
import scripted_methods
from helpers import PROTOCOL, make_case
from scripted_methods import pieces

from pcqc.methods.sequences import QUESTION, TERMINAL
from pcqc_peers.pcqc_stopping import DECISION, PcqcStopping
from pcqc_study.describe import why

CASES = [make_case(0)]
METHOD = PcqcStopping(
    "PCQC with stopping", "pcqc_stopping", terminal_group=1, divide="none", least_spread=0.0
)
ASKED = (
    "<think>cold</think>Question: p?",
    "<think>cold</think>Question: q?",
    "<think>flu</think>Final Answer: A",
    "no action",
)
# Probability of the right option, B: of the dialogue as it is, after p, and after q.
BELIEFS = {"": 0.2, "p": 0.4, "q": 0.8}


def draw(candidates, method=METHOD, say=None, turns=PROTOCOL.max_turns):
    def first(case, rollout, turn, k):
        return candidates[k] if turn == 0 else "<think>cold</think>Final Answer: B"

    def chances(text):
        asked = text.rpartition("Doctor question: ")[2].partition("?")[0]
        right = BELIEFS[asked if asked in BELIEFS else ""]
        return (1 - right, right, 0.0, 0.0)

    protocol = replace(PROTOCOL, max_turns=turns)
    return scripted_methods.draw(method, CASES, say or first, protocol, chances)


def test_a_decision_is_credited_by_what_asking_or_concluding_is_worth():
    """Utilities 0.4, 0.8, 0.2, 0.2; mean 0.4; times 4/3 undivided."""
    drawn, chat = draw(ASKED)
    decisions = pieces(chat, drawn.sequences, DECISION)
    assert [text for text, _ in decisions] == ["Question:", "Question:", "Final Answer:"]
    assert [credit for _, credit in decisions] == pytest.approx([0.0, 0.4 * 4 / 3, -0.2 * 4 / 3])
    questions = [credit for _, credit in pieces(chat, drawn.sequences, QUESTION)]
    assert questions == pytest.approx([0.0, 0.4 * 4 / 3])
    (row,) = drawn.records()["candidate_groups"]
    stopped = row["candidates"][2]
    assert stopped["credit"] == pytest.approx(-0.2 * 4 / 3)
    words = why(METHOD, row, stopped)
    assert "credit (0.200 - 0.400)" in words
    assert words.endswith("The decision to ask or to conclude gets the same credit.")


def test_at_the_last_turn_asking_is_worth_nothing():
    """Three turns: p is asked, p is asked, and at the last turn q; the next sample concludes."""
    method = PcqcStopping(
        METHOD.title,
        METHOD.method,
        terminal_group=1,
        question_group=2,
        divide="none",
        compare_last=True,
    )

    def say(case, rollout, turn, k):
        return "Question: p?" if turn < 2 else ASKED[1:3][k]

    drawn, chat = draw(None, method, say, turns=3)
    last = drawn.groups[-1]
    assert last.number == 2
    # After p the scorer gives 0.4: what concluding is worth. Mean 0.2, times 2 undivided.
    assert list(last.utilities) == [0.0, 0.4]
    decisions = pieces(chat, drawn.sequences, DECISION)
    assert sorted(credit for _, credit in decisions if credit) == pytest.approx([-0.4, 0.4])
    assert not any(credit for _, credit in pieces(chat, drawn.sequences, QUESTION))
    row = drawn.records()["candidate_groups"][-1]
    assert "ends the consultation without a diagnosis" in why(method, row, row["candidates"][0])
    assert drawn.failures["failures/scorer"] == 0


def test_executed_decisions_alone_are_trained_on_where_executed_questions_are():
    method = PcqcStopping(METHOD.title, METHOD.method, terminal_group=1, supervise="executed")
    drawn, chat = draw(ASKED, method)
    assert [text for text, _ in pieces(chat, drawn.sequences, DECISION)] == ["Question:"]
    (row,) = drawn.records()["candidate_groups"]
    assert "learned nothing" in why(method, row, row["candidates"][2])


def test_a_setting_weighs_the_decisions():
    method = PcqcStopping(METHOD.title, METHOD.method, beta=4.0, stopping_weight=2.0)
    assert method.coefficients == {TERMINAL: 1, "kl": 0.001, QUESTION: 4, DECISION: 2}
