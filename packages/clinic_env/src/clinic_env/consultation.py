"""One consultation: what was asked and answered, and what the clinic knows of it exactly."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

import numpy as np

from clinic_env.posterior import SAME, Values, answers_to, posterior
from clinic_env.world import QUESTION, ClinicCase, World, ask, asked_findings, read_findings

UNANSWERABLE = "The patient cannot answer this question."
REMINDER = "Please ask one question or give the final answer."

_ANSWER = re.compile(
    r"""Final\ Answer: [\s\[({*"']* ([A-Za-z0-9]+)
    (?: [\])}*"'.,:;] | \s+[-–—] | [^\S\n]*(?:\n|$))""",
    re.VERBOSE,
)
_QUESTION = re.compile(r"Question:(.*?)(?=Final Answer:|$)", re.DOTALL)


@dataclass(frozen=True)
class Action:
    """What a text does: asks, answers with a label, or neither; `text` is the question or label."""

    kind: Literal["question", "answer", "none"]
    text: str = ""


@lru_cache(maxsize=4096)
def read_action(text: str) -> Action:
    """What a doctor's text does; only what follows its thoughts (`<think>`) counts.

    A label that a mark or the line's end follows comes first, then a question, then an answer
    without a label, whose text is empty.
    """
    visible = text.rpartition("</think>")[2].partition("<think>")[0]
    if stated := _ANSWER.search(visible):
        return Action("answer", stated[1])
    if (asked := _QUESTION.search(visible)) and asked[1].strip():
        return Action("question", asked[1].strip())
    return Action("answer" if "Final Answer:" in visible else "none")


def opening(initial: str, options: dict[str, str], question: str = QUESTION) -> str:
    """What a doctor reads first."""
    return f"{initial}\nProblem: {question}\nOptions: {options}"


@dataclass
class Consultation:
    """A case and its turns so far.

    Attributes:
        world: the clinic.
        case: the patient's.
        max_turns: most turns; a question of the last one is not answered.
        rates: base rates of the D diseases.
        answered: finding -> present, of what the patient said.
        asked: findings that were asked about.
        turns: taken so far.
        actions: the doctor's texts.
        replies: to each of them.
    """

    world: World
    case: ClinicCase
    max_turns: int
    rates: np.ndarray
    answered: dict[int, bool] = field(default_factory=dict)
    asked: set[int] = field(default_factory=set)
    turns: int = 0
    done: bool = False
    reward: float = 0.0
    actions: list[str] = field(default_factory=list)
    replies: list[str] = field(default_factory=list)

    def __post_init__(self):
        self.facts = {}
        self.sentences = {}
        for fact in self.case.facts:
            for finding, present in read_findings(self.world, fact).items():
                self.facts[finding], self.sentences[finding] = present, fact

    @property
    def opening(self) -> str:
        """What the doctor reads first."""
        return opening(self.case.initial, self.case.options, self.case.question)

    @property
    def questions_left(self) -> int:
        """Questions that can still be answered."""
        return 0 if self.done else max(0, self.max_turns - 1 - self.turns)

    def reply(self, findings: Sequence[int]) -> str:
        """The patient's answer to a question about these findings."""
        sentences = [self.sentences[f] for f in findings if f in self.sentences]
        return " ".join(sentences) or UNANSWERABLE

    def take(self, text: str) -> str:
        """Take a turn; returns the reply.

        Raises:
            RuntimeError: the consultation has ended.
        """
        if self.done:
            raise RuntimeError("the consultation has ended: reset the environment")
        action, last = read_action(text), self.turns == self.max_turns - 1
        reply = REMINDER
        if action.kind == "answer":
            self.done = True
            self.reward = float(action.text == self.case.answer)
        elif last:
            self.done = True
        elif action.kind == "question":
            named = asked_findings(self.world, action.text)
            reply = self.reply(sorted(named))
            self.asked |= named
            self.answered |= {f: self.facts[f] for f in named if f in self.facts}
        if self.done:
            reply = f"The diagnosis is {self.case.options[self.case.answer]}."
        self.turns += 1
        self.actions.append(text)
        self.replies.append(reply)
        return reply

    # What is known exactly.

    @property
    def labels(self) -> list[str]:
        return list(self.case.options)

    def posterior(self) -> np.ndarray:
        """float [options], P(option | all answers so far)."""
        return posterior(self.world, self.case, self.answered, self.rates)

    def belief(self) -> float:
        """P(correct option | all answers so far)."""
        return float(self.posterior()[self.labels.index(self.case.answer)])

    def q_star(self, values: Values, questions: int | None = None) -> dict[int, float]:
        """Finding -> accuracy after asking about it if the best questions follow (Q*).

        Args:
            values: exact values of the world's questions, with the rates of this consultation.
            questions: that can still be answered; by default those of this consultation.
        """
        left = self.questions_left if questions is None else questions
        silent = self.asked - self.answered.keys()
        return values(self.case, self.answered, silent, left) if left else {}

    def best_question(self, values: Values, questions: int | None = None) -> int | None:
        """A finding of the highest Q*, of several the one that is worth most as the last question.

        None where no question can be answered. Arguments are those of `q_star`.
        """
        of_findings = self.q_star(values, questions)
        if not of_findings:
            return None
        last, most = self.q_star(values, 1), max(of_findings.values())
        return max((f for f, value in of_findings.items() if value > most - SAME), key=last.get)

    def best_value(self, values: Values) -> float:
        """V*: accuracy from here on if every turn is a best one; 0 at the end."""
        if self.done:
            return 0.0
        return max([float(self.posterior().max()), *self.q_star(values).values()])

    def value_of(self, values: Values, action: Action, questions: int | None = None) -> float:
        """Q* of a turn; arguments are those of `q_star`.

        Of an answer it is the chance that it is right. A question that names several findings has
        the value of the best of them; one that names nothing new, and a turn that neither asks nor
        answers, is worth what a question is worth that says nothing.
        """
        if action.kind == "answer":
            right = dict(zip(self.labels, self.posterior().tolist(), strict=True))
            return right.get(action.text, 0.0)
        if not (of_findings := self.q_star(values, questions)):
            return 0.0
        new = asked_findings(self.world, action.text) - self.asked
        return max((of_findings[f] for f in new), default=min(of_findings.values()))

    def utility(self, question: str) -> float:
        """P(correct option) after this patient's answer to a question, which is not asked."""
        named = asked_findings(self.world, question)
        known = self.answered | {f: self.facts[f] for f in named if f in self.facts}
        belief = posterior(self.world, self.case, known, self.rates)
        return float(belief[self.labels.index(self.case.answer)])

    def expected_utility(self, question: str) -> float:
        """`utility`, averaged over the options and the answers that the question might get."""
        new = asked_findings(self.world, question) - self.asked
        joint = self.posterior() * answers_to(self.world, self.case, new)
        return float(((joint**2).sum(axis=1) / joint.sum(axis=1)).sum())


def question_about(world: World, finding: int) -> str:
    """A doctor's text that asks about a finding."""
    return f"Question: {ask(world.findings[finding])}"
