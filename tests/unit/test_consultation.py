"""Rollouts with scripted roles: endings, candidates, turns, and the draws that methods share."""

import dataclasses

import pytest
from helpers import PROTOCOL, make_case, scripted_context, tiny_model
from tree_material import Counted

from pcqc.cases.prompts import REMINDER, Exchange
from pcqc.consultation import RolloutContext, open_with_question, play_on, roll_out
from pcqc.engines.transformers import TransformersEngine
from pcqc.roles import Actor, Patient
from pcqc_base.settings import Decoding

CASES = [make_case(i) for i in range(3)]


def play(say, cases=CASES[:1], *, rollouts=1, candidates=1, **options):
    context = scripted_context(say, cases, **options)
    rolled = roll_out(
        context, cases, rollouts=rollouts, candidates=candidates, seed=1, stage="test"
    )
    return rolled, context


def limits(**changes):
    return dataclasses.replace(PROTOCOL, **changes)


def script(*responses):
    """The same responses in every consultation, one a turn, the last repeated."""
    return lambda case, rollout, turn, k: responses[min(turn, len(responses) - 1)]


@pytest.mark.parametrize(
    ("responses", "ending", "predicted", "turns", "inquiries"),
    [
        (["Final Answer: B"], "answer", "B", 1, 0),
        (["Question: any?", "Final Answer: C"], "answer", "C", 2, 1),
        (["hm", "Question: any?", "Final Answer: A"], "answer", "A", 3, 2),
        (["Question: any?", "Final Answer: Z"], "invalid_answer", None, 2, 1),
        (["Question: any?"], "turn_limit", None, 4, 4),
        (["hm"], "no_action", None, 4, 4),
        (["Question: a?", "Question: b?", "Question: c?", "hm"], "no_action", None, 4, 4),
        (["Question: a?", "hm", "hm", "Final Answer: B"], "answer", "B", 4, 3),
        (["Question: any? Final Answer: D"], "answer", "D", 1, 0),
    ],
)
def test_endings_and_turns(responses, ending, predicted, turns, inquiries):
    ((consultation,),), context = play(script(*responses))
    assert consultation.ending == ending
    assert consultation.predicted == predicted
    assert len(consultation.turns) == turns
    assert consultation.inquiry_turns == inquiries
    assert consultation.actor_tokens == sum(
        len(t.executed.completion.tokens) for t in consultation.turns
    )
    # No answer can follow the last response, so the patient is not asked then.
    before_the_last = consultation.turns[: PROTOCOL.max_turns - 1]
    questions = [t for t in before_the_last if t.executed.action.kind == "question"]
    assert len(context.patient.engine.prompts) == len(questions)


def test_a_prompt_over_its_limit_ends_the_consultation_before_it_begins():
    ((consultation,),), context = play(script("Final Answer: B"), protocol=limits(prompt_tokens=9))
    assert consultation.ending == "token_limit"
    assert consultation.turns == []
    assert context.actor.engine.prompts == []


def test_no_action_begins_that_could_exceed_the_response_limit():
    ((free,),), _ = play(script("Question: any?"))
    first = free.turns[1].state
    used = len(first) - len(free.prompt)
    rules = limits(response_tokens=used + PROTOCOL.action_tokens)
    ((consultation,),), _ = play(script("Question: any?"), protocol=rules)
    assert consultation.ending == "token_limit"
    assert len(consultation.turns) == 2
    rules = limits(response_tokens=used + PROTOCOL.action_tokens - 1)
    ((consultation,),), _ = play(script("Question: any?"), protocol=rules)
    assert len(consultation.turns) == 1


def test_an_action_that_ran_into_its_limit_is_closed_by_the_template():
    ((cut,),), _ = play(script("Question: any?"), ended=False)
    ((whole,),), _ = play(script("Question: any?"))
    assert cut.turns[1].state == whole.turns[1].state
    tokens = [turns[0].executed.completion.tokens for turns in (cut.turns, whole.turns)]
    assert tokens[0] == tokens[1][:-1]


def test_states_grow_by_what_was_said():
    say = script("<think>x</think>Question: any cough?", "hm", "Final Answer: B")
    ((consultation,),), context = play(say, answer=lambda prompt: " No cough. ")
    decode = context.chat.tokenizer.decode
    opened = decode(consultation.turns[0].state)
    assert decode(consultation.turns[2].state) == (
        f"{opened}<think>x</think>Question: any cough?<|im_end|>\n"
        "<|im_start|>user\nNo cough.<|im_end|>\n<|im_start|>assistant\n"
        f"hm<|im_end|>\n<|im_start|>user\n{REMINDER}<|im_end|>\n<|im_start|>assistant\n"
    )
    assert consultation.exchanges == (Exchange("any cough?", "No cough."),)
    assert [len(t.exchanges) for t in consultation.turns] == [0, 1, 1]


def numbered(case, rollout, turn, k):
    """Every candidate asks something of its own; the consultation answers at turn 2."""
    if turn == 2 and k == 0:
        return "Final Answer: B"
    return f"Question: {case} {rollout} {turn} {k}?"


def test_the_first_consultation_draws_the_candidates_and_the_first_continues():
    rolled, _ = play(numbered, CASES, rollouts=2, candidates=3, answer=lambda p: p[-90:])
    for case, row in zip(CASES, rolled, strict=True):
        assert [c.rollout for c in row] == [0, 1]
        first, second = row
        assert [len(t.responses) for t in first.turns] == [3, 3, 1]
        assert [len(t.responses) for t in second.turns] == [1, 1, 1]
        for number, turn in enumerate(first.turns[:2]):
            asked = [r.action.text for r in turn.responses]
            assert asked == [f"{case.case_id} 0 {number} {k}?" for k in range(3)]
            assert all(asked[k] in r.answer for k, r in enumerate(turn.responses))
        assert [e.question for e in first.exchanges] == [f"{case.case_id} 0 {t} 0?" for t in (0, 1)]
        assert first.exchanges[0].answer == first.turns[0].responses[0].answer


def test_a_group_is_kept_only_where_its_first_response_asks():
    def say(case, rollout, turn, k):
        if turn == 0:
            return "hm" if k == 0 else "Question: any?"
        return ["Question: any?", "Final Answer: B", "hm"][k] if turn == 1 else "Final Answer: B"

    ((consultation,),), context = play(say, candidates=3)
    assert [len(t.responses) for t in consultation.turns] == [1, 3, 1]
    answers = [r.answer for r in consultation.turns[1].responses]
    assert answers == ["No cough.", None, None]
    # Of two states and six responses, one question was put to the patient.
    assert len(context.patient.engine.prompts) == 1


def test_no_candidates_at_the_last_turn():
    say = script("Question: any?")
    ((consultation,),), _ = play(say, candidates=3, protocol=limits(max_turns=2))
    assert [len(t.responses) for t in consultation.turns] == [3, 1]


@pytest.fixture(scope="module")
def models():
    return tiny_model(0), tiny_model(1)


def sampled(models, chat, cases, play=roll_out, **options):
    """Consultations between two random models, which wander but are sampled for real."""
    protocol = limits(max_turns=3, action_tokens=8)
    # Flat distributions over many tokens would now and then tip over by rounding alone.
    decoding = Decoding(temperature=0.5, top_p=0.8, max_tokens=8)
    actor, patient = (TransformersEngine(model, batch_size=5) for model in models)
    context = RolloutContext(
        Actor(actor, chat, decoding), Patient(patient, chat, decoding), chat, protocol
    )
    generate = actor.generate

    def asking(requests, sampling):
        """Begin every action with a marker, so that dialogues come about."""
        marker = chat.encode("Question:")
        drawn = generate(requests, sampling)
        return [
            [
                dataclasses.replace(c, tokens=marker + c.tokens, logprobs=[0.0] + c.logprobs)
                for c in g
            ]
            for g in drawn
        ]

    actor.generate = asking
    return play(context, cases, stage="update/1", **options)


def tokens(consultation):
    return [
        (t.state, [(r.completion.tokens, r.answer) for r in t.responses])
        for t in consultation.turns
    ]


def test_results_do_not_depend_on_the_company(models, chat):
    together = sampled(models, chat, CASES, rollouts=2, candidates=2, seed=1)
    for case, row in zip(CASES, together, strict=True):
        (alone,) = sampled(models, chat, [case], rollouts=2, candidates=2, seed=1)
        assert [tokens(c) for c in alone] == [tokens(c) for c in row]
    assert len(together[0][0].turns) == 3


def test_methods_share_their_draws(models, chat):
    """Candidate 0 of PCQC is Terminal-only's response, turn by turn; so are all consultations."""
    pcqc = sampled(models, chat, CASES[:2], rollouts=3, candidates=4, seed=1)
    terminal_only = sampled(models, chat, CASES[:2], rollouts=2, seed=1)
    other_seed = sampled(models, chat, CASES[:2], rollouts=2, seed=2)
    for with_candidates, without, other in zip(pcqc, terminal_only, other_seed, strict=True):
        for a, b, c in zip(with_candidates, without, other, strict=False):
            executed = [(s, group[:1]) for s, group in tokens(a)]
            assert executed == tokens(b)
            assert tokens(b) != tokens(c)


def test_candidates_consultations_and_turns_draw_differently(models, chat):
    ((first, second),) = sampled(models, chat, CASES[:1], rollouts=2, candidates=3, seed=1)
    drawn = [tuple(r.completion.tokens) for r in first.turns[0].responses]
    assert len(set(drawn)) == 3
    assert second.turns[0].executed.completion.tokens != first.turns[0].executed.completion.tokens


def test_a_scripted_actor_is_asked_once_a_turn_for_all_dialogues():
    context = scripted_context(numbered, CASES)
    context.actor.engine.__class__ = Counted
    roll_out(context, CASES, rollouts=2, seed=1, stage="test")
    assert (context.actor.engine.calls, len(context.actor.engine.prompts)) == (3, 3 * 6)


def test_continuing_from_an_executed_question_repeats_the_consultation(models, chat):
    """The same rollout number uses the same draws, whoever asked the first question."""
    (whole,) = sampled(models, chat, CASES[:1], rollouts=1, seed=1)
    first = whole[0].turns[0].executed

    def again(context, cases, **options):
        opened = open_with_question(context, cases[0], 0, first.completion.tokens, first.answer)
        return play_on(context, [opened], **options)

    (repeated,) = sampled(models, chat, CASES[:1], seed=1, play=again)
    assert tokens(repeated) == tokens(whole[0])
