"""The texts of a consultation: what actor, patient and scorer read, and how an action is parsed.

Prompts and forms are those of app:protocols. The actor's system message is the study's
`protocol.instruction`, or taken from the published cases (`data_prep/instruction.py`).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pcqc.cases.public_case import PublicCase

QUESTION_MARKER = "Question:"
ANSWER_MARKER = "Final Answer:"
THINKING = THINK_OPEN, THINK_CLOSE = "<think>", "</think>"
ANSWER_CUE = "\n\nAnswer:"  # ends the scorer's prompt
# The reply to a response that is neither a question nor an answer.
REMINDER = "Please ask one question or give the final answer."
UNANSWERABLE = "The patient cannot answer this question."

# app:protocols; numbering and wording are the paper's.
PATIENT_INSTRUCTION = """\
You are a medical information assistant. Your role is to help doctors by providing information \
strictly from patient data.

INSTRUCTIONS:
1. Search through the provided atomic facts for information that directly answers the doctor's \
question
2. If you find relevant atomic facts, provide the answer using ONLY that information
3. Do NOT add any medical analysis, inference, interpretation, or external knowledge
4. Do NOT make assumptions or draw conclusions beyond what is explicitly stated
5. If no atomic fact directly answers the question, respond with exactly this phrase: \
"The patient cannot answer this question."

Patient atomic facts:
{facts}

Doctor's question:
{question}

Your response:
"""

# Beyond the paper: for answers that a patient without facts imagines (`imagined_answers`).
IMAGINING_INSTRUCTION = """\
You play a patient in a medical consultation. Your record is not given: imagine it.

What is known so far:
{evidence}

What is true of you, though you do not know it: the right answer to "{problem}" is "{option}".

Answer the doctor's question in one sentence, as such a patient probably would. Do not name the \
right answer.

Doctor's question:
{question}

Your response:
"""


@dataclass(frozen=True)
class Exchange:
    """A question and the patient's answer to it, as in the dialogue state O_t."""

    question: str
    answer: str


@dataclass(frozen=True)
class Action:
    """What a response says: a question, a final answer (`valid` or not), or neither."""

    kind: Literal["question", "final", "none"]
    text: str | None = None  # the question, or the label
    valid: bool = True

    @property
    def question(self) -> str | None:
        """The question, never empty; None if the action asks nothing."""
        return self.text if self.kind == "question" else None


def actor_prompt(case: PublicCase) -> str:
    """First user message: initial information, clinical question and options."""
    return f"{case.initial}\nProblem: {case.question}\nOptions: {case.options}"


def patient_prompt(facts: Sequence[str], question: str) -> str:
    """The patient's whole prompt: facts and one question, nothing of the task or the dialogue."""
    return PATIENT_INSTRUCTION.format(facts="\n".join(facts), question=question)


def imagining_prompt(
    case: PublicCase, exchanges: Sequence[Exchange], option: str, question: str
) -> str:
    """The prompt of a patient without facts, for whom the `option` is taken to be right."""
    return IMAGINING_INSTRUCTION.format(
        evidence="\n".join(_evidence(case, exchanges)),
        problem=case.question,
        option=option,
        question=question,
    )


def _evidence(case: PublicCase, exchanges: Sequence[Exchange]) -> list[str]:
    """The lines of what is known: initial information, and the exchanges so far."""
    lines = [case.initial]
    for exchange in exchanges:
        lines.append(f"Doctor question: {exchange.question}")
        lines.append(f"Patient response: {exchange.answer}")
    return lines


def scorer_prompt(case: PublicCase, exchanges: Sequence[Exchange]) -> str:
    """The scorer's prompt (app:diagnostic_utility); a space and an option label follow it."""
    options = "\n".join(f"{label}. {text}" for label, text in case.options.items())
    return (
        "Clinical evidence:\n"
        + "\n".join(_evidence(case, exchanges))
        + f"\nQuestion: {case.question}\nOptions:\n{options}{ANSWER_CUE}"
    )


def visible(response: str) -> str:
    """The text after the last closed thinking, up to any thinking that is still open."""
    return response.rpartition(THINK_CLOSE)[2].partition(THINK_OPEN)[0]


def parse_action(response: str, labels: Sequence[str]) -> Action:
    """Parse a response of the actor; a valid final answer precedes a question, as in the paper.

    Args:
        response: decoded actor tokens, thinking included; only what follows the thinking counts.
        labels: the case's option labels.

    Returns:
        The first of these that the response has: a valid final answer, a question, an invalid final
        answer; else an action of kind `none`. Source: app:evaluation_protocol.
    """
    text = visible(response)
    answers = [part.split(QUESTION_MARKER)[0].strip() for part in text.split(ANSWER_MARKER)[1:]]
    for answer in answers:
        if (label := _label(answer, labels)) is not None:
            return Action("final", label)
    if QUESTION_MARKER in text:
        question = text.split(QUESTION_MARKER, 1)[1].split(ANSWER_MARKER, 1)[0].strip()
        if question:
            return Action("question", question)
    if answers:
        return Action("final", answers[0][:40] or None, valid=False)
    return Action("none")


# A label with opening marks before it, then a closing mark, a dash, or the end of the line.
_STATED = re.compile(
    r"""[\s\[({*"'“‘`]* ([A-Za-z0-9]+) (?: [\])}*"'”’`.,:;] | \s+[-–—] | [^\S\n]*(?:\n|$) )""",
    re.VERBOSE,
)


def _label(answer: str, labels: Sequence[str]) -> str | None:
    """The label that an answer names: alone, quoted, in brackets, or followed by a mark.

    The paper's form is the label alone (app:protocols). In `A cold is likely` no mark follows, and
    the letter may be a word: no label is read.
    """
    match = _STATED.match(answer)
    return match.group(1) if match and match.group(1) in labels else None
