"""The paper's information-access table, on the types and on every prompt actually built."""

import pytest
from helpers import make_case, scripted_context, scripted_scorer

from pcqc.methods.base import Services
from pcqc.methods.pcqc import Pcqc

METHOD = Pcqc("PCQC", "pcqc", terminal_group=2, question_group=3)


@pytest.fixture(scope="module")
def prompts():
    """Every prompt of one update, by role, with a sentinel word in each part of the case."""
    cases = [
        make_case(
            number,
            initial="INITIAL",
            question="TOPIC",
            options={"A": "OPTIONONE", "B": "OPTIONTWO"},
            answer="AB"[number],
            facts=("FACTONE", "FACTTWO"),
            source="SOURCE",
            origin={"file": "ORIGIN"},
        )
        for number in range(2)
    ]

    def say(case, rollout, turn, k):
        if turn == 2:
            return "Final Answer: A"
        return f"<think>THOUGHT</think>Question: ASK{'XY'[turn]}{'PQR'[k]}?"

    def reply(prompt):
        return "REPLY" + prompt.split("ASK")[1][:2]

    context = scripted_context(say, cases, name="1/update/5", answer=reply)
    scorer = scripted_scorer(lambda text: (0.5, 0.5), context.chat)
    METHOD.collect_rollouts(Services(None, 1, scorer), context, cases, 5)
    engines = {"actor": context.actor, "patient": context.patient, "scorer": scorer}
    decode = context.chat.tokenizer.decode
    return {role: [decode(p) for p in r.engine.prompts] for role, r in engines.items()}


#                 O_t        q_i    z       task
SEES = {
    "actor": {"INITIAL", "TOPIC", "OPTIONONE", "OPTIONTWO"},
    "patient": {"ASK", "FACTONE", "FACTTWO"},
    "scorer": {"INITIAL", "TOPIC", "OPTIONONE", "OPTIONTWO"},
}
WORDS = ("INITIAL", "TOPIC", "OPTIONONE", "OPTIONTWO", "FACTONE", "FACTTWO", "SOURCE", "ORIGIN")


@pytest.mark.parametrize("role", SEES)
def test_each_role_reads_what_the_table_grants(prompts, role):
    assert prompts[role]
    for prompt in prompts[role]:
        assert {word for word in WORDS if word in prompt} == SEES[role] - {"ASK"}


def test_the_actor_sees_executed_exchanges_of_its_own_dialogue_alone(prompts):
    for prompt in prompts["actor"]:
        asked = [part[:2] for part in prompt.split("ASK")[1:]]
        replied = [part[:2] for part in prompt.split("REPLY")[1:]]
        assert asked == replied == ["XP", "YP"][: len(asked)]


def test_the_patient_sees_one_question_and_no_dialogue(prompts):
    for prompt in prompts["patient"]:
        assert prompt.count("ASK") == 1
        assert "REPLY" not in prompt
        assert "THOUGHT" not in prompt


def test_the_scorer_sees_the_evidence_and_no_thinking(prompts):
    seen = set()
    for prompt in prompts["scorer"]:
        asked = tuple(part[:2] for part in prompt.split("ASK")[1:])
        assert asked == tuple(part[:2] for part in prompt.split("REPLY")[1:])
        assert "THOUGHT" not in prompt
        seen.add(asked)
    first, second = [("X" + k,) for k in "PQR"], [("XP", "Y" + k) for k in "PQR"]
    assert seen == {(), *first, *second}


def test_the_answer_reaches_no_prompt():
    """Two updates that differ in the right answer alone ask every engine the same."""

    def asked(answer):
        cases = [make_case(answer=answer)]
        say = lambda c, r, turn, k: "Final Answer: A" if turn else f"Question: {k}?"  # noqa: E731
        context = scripted_context(say, cases, name="1/update/1")
        scorer = scripted_scorer(lambda text: (0.1, 0.2, 0.3, 0.4), context.chat)
        drawn = METHOD.collect_rollouts(Services(None, 1, scorer), context, cases, 1)
        engines = (context.actor.engine, context.patient.engine, scorer.engine)
        return [engine.prompts for engine in engines], drawn

    (a, of_a), (c, of_c) = asked("A"), asked("C")
    assert a == c
    assert [r.tolist() for r in of_a.rewards] == [[1.0, 1.0]]
    assert [r.tolist() for r in of_c.rewards] == [[0.0, 0.0]]
    # The answer only picks the entry of what the scorer returned.
    assert of_a.groups[0].baseline == pytest.approx(0.1)
    assert of_c.groups[0].baseline == pytest.approx(0.3)
