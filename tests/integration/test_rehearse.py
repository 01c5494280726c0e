"""`pcqc doctor --cases`: every role's prompt and reply is shown, to each its own part of a case."""

from dataclasses import replace

import pytest
from helpers import make_case, scripted_context, scripted_scorer

from pcqc.engines.base import Failure
from pcqc_base.errors import UserError
from pcqc_base.system.terminal import show
from pcqc_gpu.rehearse import IN_ITS_PLACE, rehearse

CASE = replace(make_case(), facts=("Has a fever.", "No rash."))
SAYS = {0: "Question: Any fever?", 1: "Final Answer: B"}


def context(say):
    answer = {"Any fever?": "Has a fever.", IN_ITS_PLACE: "No rash."}

    def reply(prompt):
        (asked,) = (question for question in answer if question in prompt)
        return answer[asked]

    return scripted_context(say, [CASE], answer=reply, name="0/rehearsal")


def parts(text):
    """The parts of a rehearsal in order: heading and what follows."""
    return [tuple(part.split("\n", 1)) for part in text.strip().split("\n--- ")[1:]]


def test_each_prompt_stands_before_what_was_made_of_it():
    with_question = context(lambda case, rollout, turn, k: SAYS[turn])
    scorer = scripted_scorer(
        lambda prompt: [0.1, 0.7, 0.1, 0.1] if "Any fever?" in prompt else [0.25] * 4,
        with_question.chat,
    )
    text = rehearse(with_question, scorer, [CASE])
    assert text.strip().splitlines()[0] == f"=== {CASE.case_id}"
    headings = [part[0] for part in parts(text)]
    assert headings == [
        "the doctor reads",
        "the doctor says",
        "the patient reads",
        "the patient says",
        "the doctor reads, further on",
        "the doctor says",
        "the scorer reads",
        "the scorer says after 0 answers: A 0.25, B 0.25, C 0.25, D 0.25",
        "the scorer says after 1 answers: A 0.10, B 0.70, C 0.10, D 0.10",
        f"the end: answer; the correct option is {CASE.answer}",
    ]
    bodies = [part[1] for part in parts(text) if len(part) == 2]
    opening, asked, facts, answer, further, final, evidence = bodies
    assert CASE.initial in opening
    assert "Any fever?" not in opening
    assert (asked, answer, final) == ("Question: Any fever?", "Has a fever.", "Final Answer: B")
    assert "Has a fever.\nNo rash." in facts
    assert CASE.initial not in facts
    assert "Has a fever." in further
    assert CASE.initial not in further
    assert "Doctor question: Any fever?\nPatient response: Has a fever." in evidence
    for public in (opening, further, evidence):
        assert "No rash." not in public


def test_a_doctor_that_asks_nothing_does_not_hide_the_patient():
    text = rehearse(context(lambda *place: "Final Answer: A"), None, [CASE])
    shown = dict(part for part in parts(text) if len(part) == 2)
    assert shown["the patient says"] == "No rash."
    assert IN_ITS_PLACE in shown["the patient reads"]


def test_what_a_case_says_cannot_steer_the_terminal(capsys):
    hostile = replace(CASE, initial="Cough\x1b]0;taken\x07")
    shown = scripted_context(lambda *place: "Final Answer: A", [hostile], name="0/rehearsal")
    scorer = scripted_scorer(lambda prompt: [0.25] * 4, shown.chat)
    show(rehearse(shown, scorer, [hostile]))
    printed = capsys.readouterr().out
    assert "Cough\\x1b]0;taken\\x07" in printed
    assert all(line.isprintable() for line in printed.split("\n"))


def test_a_server_that_fails_ends_it(monkeypatch):
    broken = context(lambda *place: "Final Answer: A")
    monkeypatch.setattr(broken.patient, "answer", lambda inquiries: [Failure("timeout", "30 s")])
    with pytest.raises(UserError, match="patient's server failed"):
        rehearse(broken, None, [CASE])
