"""One whole consultation, token by token: who wrote each token, and which losses train on it.

Two tokenizers have a golden file each. One that is removed is written anew; read the difference.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from helpers import INSTRUCTION, make_case, scripted_context

from clinic_env.world import ask, draw_patient, state_finding
from pcqc.cases.case import Case
from pcqc.consultation import roll_out
from pcqc.methods.pcqc import Pcqc
from pcqc.methods.question_groups import QuestionGroup
from pcqc.methods.sequences import QUESTION, TERMINAL
from pcqc.training.training_sequence import TrainingSequence
from pcqc_base.settings import Benchmark
from pcqc_clinic.tokenizer import make_tokenizer
from pcqc_clinic.world import as_case, make_world
from pcqc_study.study_file import load_study

GOLDEN = Path(__file__).parents[2] / "fixtures" / "golden"
METHOD = Pcqc("PCQC", "pcqc", terminal_group=1, question_group=2)
HEAD = """\
# One consultation under {name}:
# a question, its answer, the final answer; then the question never asked at the first state.
# trained: T terminal loss and KL, Q question loss, - context. role: who wrote the token.
#
#  place     id trained role     text
"""


def golden_text(
    name: str, tokenizer, case: Case, spoken: Sequence[str], candidate: str, answer: str
) -> str:
    """The golden file of a tokenizer.

    Args:
        name: what to call the tokenizer.
        tokenizer: with a chat template.
        case: consulted on.
        spoken: the actor's executed responses.
        candidate: the unexecuted response at the first state.
        answer: the patient's answer to every question.
    """

    def say(case_id: str, rollout: int, turn: int, k: int) -> str:
        return candidate if k else spoken[turn]

    context = scripted_context(say, [case], answer=lambda prompt: answer, tokenizer=tokenizer)
    ((consultation,),) = roll_out(context, [case], rollouts=1, candidates=2, seed=1, stage="test")
    first = consultation.turns[0]
    group = QuestionGroup(case, 0, first, 0.5, np.array([0.9, 0.1]))
    METHOD.credit([group])
    executed, unexecuted = METHOD.case_sequences([consultation], np.zeros(1), [group])
    chat, start = context.chat, len(first.state)
    lines = [HEAD.format(name=name)]
    lines += _rows(chat, executed, list(_authors(chat, consultation)), 0)
    lines += ["#\n"]
    lines += _rows(chat, unexecuted, ["actor"] * len(unexecuted.tokens), start)
    return "".join(lines)


def _authors(chat, consultation) -> Iterator[str]:
    """Who wrote each token of the executed sequence."""
    yield from ["prompt"] * len(consultation.prompt)
    for turn, following in zip(consultation.turns, [*consultation.turns[1:], None], strict=True):
        response = turn.executed.completion.tokens
        yield from ["actor"] * len(response)
        if following:
            between = len(following.state) - len(turn.state) - len(response)
            opened = len(chat.after_action(response, "")) - chat.ending
            answered = between - opened - chat.ending
            yield from ["template"] * opened + ["patient"] * answered
            yield from ["template"] * chat.ending


def _rows(chat, sequence: TrainingSequence, authors: Sequence[str], start: int) -> Iterator[str]:
    marks = {TERMINAL: "T", QUESTION: "Q"}
    for place in range(start, len(sequence.tokens)):
        trained = "".join(
            mark
            for name, mark in marks.items()
            if name in sequence.terms and sequence.terms[name].weights[place]
        )
        token = sequence.tokens[place]
        text = chat.tokenizer.decode([token])
        yield f"{place:7d} {token:6d} {trained or '-':7s} {authors[place]:8s} {text!r}\n"


def check(name: str, text: str) -> None:
    """The text is the golden file's."""
    path = GOLDEN / f"{name}.txt"
    if not path.exists():
        path.write_text(text, encoding="utf-8")
        pytest.fail(f"{path} was missing, and is written anew")
    assert text == path.read_text(encoding="utf-8")


def test_the_clinics_tokenizer():
    study = load_study("clinic")
    world = make_world(study.clinic)
    rng = np.random.default_rng(0)
    patient = draw_patient(world, rng, 4, world.rates("uniform"))
    case = as_case(world, patient, "golden-1", Benchmark("Golden", "held_out"), rng)
    first, second = patient.options[:2]
    name = case.options[case.answer]
    text = golden_text(
        "the clinic's tokenizer",
        make_tokenizer(world, INSTRUCTION),
        case,
        [
            f"<think>{name}</think>Question: {ask(world.findings[first])}",
            f"<think>{name}</think>Final Answer: {case.answer}",
        ],
        f"<think>{name}</think>Question: {ask(world.findings[second])}",
        state_finding(world.findings[first], patient.present[first]),
    )
    check("clinic", text)


@pytest.mark.slow
def test_smollm2(smollm2):
    text = golden_text(
        "SmolLM2's tokenizer and chat template",
        smollm2,
        make_case(
            initial="A 54-year-old man has chest pain.",
            question="What is the most likely diagnosis?",
            options={"A": "Angina", "B": "Pericarditis", "C": "Pneumonia", "D": "Reflux"},
        ),
        [
            "<think>\nIs it worse lying down?\n</think>\n\nQuestion: Does posture change the pain?",
            "<think>\nThat fits Pericarditis.\n</think>\n\nFinal Answer: B",
        ],
        "<think>\nThe heart?\n</think>\n\nQuestion: What does the ECG show?",
        "The pain grows worse on lying down (38.5 °C at home).",
    )
    check("smollm2", text)
