"""Credit of thoughts: what a reader of the thought alone believes, and which tokens it credits."""

import numpy as np
import pytest
from helpers import make_case, scripted_context, scripted_scorer
from scripted_methods import pieces

from clinic_env.posterior import posterior
from clinic_env.world import draw_world, state_complaint
from pcqc.cases.prompts import thought
from pcqc.clinic.known_world import KnownWorld
from pcqc.engines.base import Failure
from pcqc.methods.base import Services
from pcqc.methods.pcqc_thoughts import THOUGHT, PcqcThoughts
from pcqc.methods.sequences import QUESTION, TERMINAL
from pcqc.settings import Assumptions
from turn_credit import quadratic_scores

CASES = [make_case(0)]
METHOD = PcqcThoughts(
    "PCQC with thoughts", "pcqc_thoughts", terminal_group=2, divide="none", least_spread=0.0
)
# The reader's belief in A to D, by the thought; the right option is B.
BELIEFS = {"cold": (0.1, 0.7, 0.1, 0.1), "cold, flu": (0.5, 0.5, 0, 0), "flu": (0.7, 0.1, 0.1, 0.1)}
SAID = (
    "<think>cold</think>Question: p?",
    "<think>cold, flu</think>Question: q?",
    "Question: r?",
    "<think>flu</think>Final Answer: A",
)


def say(case, rollout, turn, k):
    return SAID[k] if turn == 0 else "<think>cold</think>Final Answer: B"


def draw(method=METHOD, failing=False):
    read = []

    def chances(text):
        read.append(text)
        _, _, kept = text.partition("<think>")
        return BELIEFS[kept.split("</think>")[0]] if kept else (0.25,) * 4

    context = scripted_context(say, CASES, name="1/update/1")
    scorer = scripted_scorer(chances, context.chat)
    if failing:
        own = scorer.probabilities
        scorer.probabilities = lambda evidence: [
            Failure("scorer", "gone") if kept == "flu" else row
            for (_, kept), row in zip(evidence, own(evidence), strict=True)
        ]
    services = Services(None, 1, scorer)
    return method.collect_rollouts(services, context, CASES, 1), context.chat, read


def test_a_thought_is_credited_by_what_its_reader_believes_over_the_other_thoughts():
    """Scores 0.88, 0.5, 0.25 of the task alone, -0.32; mean 0.3275; times 4/3 undivided."""
    drawn, chat, _ = draw()
    (group,) = drawn.groups
    assert group.thought_scores == pytest.approx([0.88, 0.5, 0.25, -0.32])
    credited = pieces(chat, drawn.sequences, THOUGHT)
    texts = ["<think>cold</think>", "<think>cold, flu</think>", "<think>flu</think>"]
    assert [text for text, _ in credited] == texts
    credits = [0.5525 * 4 / 3, 0.1725 * 4 / 3, -0.6475 * 4 / 3]
    assert [credit for _, credit in credited] == pytest.approx(credits)
    assert len(pieces(chat, drawn.sequences, QUESTION)) == 3
    assert drawn.metrics()["credit/thought_score"] == pytest.approx(0.3275)
    candidates = drawn.records()["candidate_groups"][0]["candidates"]
    assert [c["thought_credit"] for c in candidates][3] == pytest.approx(credits[2])


def test_the_reader_of_a_thought_sees_the_task_and_nothing_that_was_said():
    _, _, read = draw()
    of_thoughts = [text for text in read if "<think>" in text]
    assert len(of_thoughts) == 3
    for text in of_thoughts:
        assert "Doctor question" not in text
        assert text.startswith("Clinical evidence:\nPatient 0 has fever.\nQuestion: Which")
    end = "D. asthma\n<think>cold, flu</think>\n\nAnswer:"
    assert sum(text.endswith(end) for text in of_thoughts) == 1


def test_a_marker_in_a_thought_is_text_to_its_reader():
    chat = scripted_context(say, CASES).chat
    scorer = scripted_scorer(lambda text: (0.25,) * 4, chat)
    key = scorer.key((CASES[0].public, "cold <|im_end|></think>"))
    ((tokens, _),) = scorer.passes(key)
    assert chat.end_of_turn not in tokens
    assert [tokens.count(chat.encode(tag)[0]) for tag in ("<think>", "</think>")] == [1, 1]


def test_a_reader_that_fails_credits_no_thought_of_the_state():
    drawn, chat, _ = draw(failing=True)
    assert {credit for _, credit in pieces(chat, drawn.sequences, THOUGHT)} == {0.0}
    assert "credit/thought_score" not in drawn.metrics()
    assert drawn.records()["candidate_groups"][0]["candidates"][0]["thought_score"] is None


def test_executed_thoughts_alone_are_trained_on_where_executed_questions_are():
    method = PcqcThoughts(METHOD.title, METHOD.method, terminal_group=2, supervise="executed")
    drawn, chat, _ = draw(method)
    assert [text for text, _ in pieces(chat, drawn.sequences, THOUGHT)] == ["<think>cold</think>"]


def test_a_weight_of_zero_leaves_the_questions_out_of_the_loss():
    alone = PcqcThoughts(METHOD.title, METHOD.method, beta=0.0, thought_weight=0.5)
    assert alone.coefficients == {TERMINAL: 1, "kl": 0.001, QUESTION: 0, THOUGHT: 0.5}


def test_a_plan_counts_the_readings_of_thoughts():
    """PCQC's 5 readings at each of two questions, and four thoughts more."""
    assumed = Assumptions(inquiries=2.0)
    assert METHOD.work(assumed).scores == 2 * (5 + 4)
    exact = PcqcThoughts(METHOD.title, METHOD.method, thought_reader="world")
    assert exact.work(assumed).scores == 2 * 5
    assert "world" in exact.needs


def test_a_thought_is_the_closed_thinking_without_its_tags():
    assert thought("<think>flu, cold</think>Question: p?") == "flu, cold"
    assert thought("<think>flu") == thought("Question: p?") == ""


def test_scores_reward_what_is_known_and_no_more():
    assert quadratic_scores([[1, 0, 0], [0, 1, 0], [0.5, 0.5, 0]], 0).tolist() == [1, -1, 0.5]
    # Who knows (0.6, 0.4) expects 0.52 by saying so, and 0.6 - 0.4 by naming the first alone.
    known = np.array([0.6, 0.4])
    expected = [known @ [quadratic_scores([b], y)[0] for y in (0, 1)] for b in (known, [1, 0])]
    assert expected == pytest.approx([0.52, 0.2])


def test_in_the_clinic_a_thought_keeps_the_options_that_it_lists():
    rng = np.random.default_rng(0)
    world = draw_world(rng, diseases=8, complaints=4, complaint_odds=3, noise=0.02)
    names = world.diseases[:4]
    options = dict(zip("ABCD", names, strict=True))
    case = make_case(options=options, initial=state_complaint(world.complaints[0], "plain"))
    before = posterior(world, case, {})
    kept = KnownWorld(world).kept(case, f"{names[2]}, {names[0]}")
    assert kept[[1, 3]].tolist() == [0, 0]
    assert kept[0] / kept[2] == pytest.approx(before[0] / before[2])
    assert kept.sum() == pytest.approx(1)
    assert KnownWorld(world).kept(case, "nothing") == pytest.approx(before)
