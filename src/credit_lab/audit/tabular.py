"""A clinic so small that everything in it is a finite sum, and a policy with a logit for each act.

A patient is a diagnosis and its findings. The doctor asks about a finding or names an option, in at
most `turns` turns; a question of the last turn is not answered. A response has two tokens: the
choice between asking and answering (`Question:` or `Final Answer:`), then the finding or the
option. A state is what was asked and answered so far, in order, as the actor sees it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import NamedTuple

import numpy as np

ASK, ANSWER = 0, 1
Act = tuple[int, int]  # ASK and a finding, or ANSWER and an option
State = tuple[tuple[int, bool], ...]  # finding and whether it is present, of every question
Course = tuple[Act, ...]  # all acts of a consultation


class Patient(NamedTuple):
    """Correct option, presence of each finding, and the probability of meeting such a patient."""

    option: int
    findings: tuple[bool, ...]
    probability: float


@dataclass(frozen=True, eq=False)
class TinyClinic:
    """The world. Findings are independent given the diagnosis.

    Attributes:
        prior: float [options].
        present: float [findings, options], P(finding | option).
        turns: most turns of a consultation.
    """

    prior: np.ndarray
    present: np.ndarray
    turns: int = 3

    @property
    def options(self) -> int:
        return len(self.prior)

    @property
    def findings(self) -> int:
        return len(self.present)

    @cached_property
    def patients(self) -> list[Patient]:
        """Every possible patient."""
        found = []
        for option, shown in product(
            range(self.options), product((True, False), repeat=self.findings)
        ):
            likelihood = np.where(shown, self.present[:, option], 1 - self.present[:, option])
            found.append(Patient(option, shown, float(self.prior[option] * likelihood.prod())))
        return found

    @cached_property
    def states(self) -> dict[State, int]:
        """State -> its number; those at which the doctor may act."""
        reached = {after(p, asked): None for asked in self._asked() for p in self.patients}
        return {state: number for number, state in enumerate(reached)}

    @cached_property
    def courses(self) -> list[Course]:
        """Every course that a consultation can take."""
        found = []
        for asked in self._asked():
            questions = tuple((ASK, finding) for finding in asked)
            found += [(*questions, (ANSWER, option)) for option in range(self.options)]
            if len(asked) == self.turns - 1:
                found += [(*questions, (ASK, finding)) for finding in range(self.findings)]
        return found

    def _asked(self) -> Iterator[tuple[int, ...]]:
        for count in range(self.turns):
            yield from product(range(self.findings), repeat=count)

    def posterior(self, state: State) -> np.ndarray:
        """Exact P(option | state), float [options]; a repeated question says nothing new."""
        weight = self.prior.copy()
        for finding, shown in set(state):
            weight *= self.present[finding] if shown else 1 - self.present[finding]
        return weight / weight.sum()


# Three diseases, and the signs of the first two. The first sign is the better question.
CLINIC = TinyClinic(np.array([0.4, 0.35, 0.25]), np.array([[0.9, 0.1, 0.1], [0.2, 0.7, 0.2]]))


def after(patient: Patient, asked: tuple[int, ...]) -> State:
    """The state after these questions to a patient, who answers all truthfully."""
    return tuple((finding, patient.findings[finding]) for finding in asked)


def visited(patient: Patient, course: Course) -> list[State]:
    """The state before each turn of a course."""
    asked = tuple(content for _, content in course)
    return [after(patient, asked[:turn]) for turn in range(len(course))]


def reward(patient: Patient, course: Course) -> float:
    """1 if the course ends in the correct answer, else 0 (app:candidate_protocol)."""
    return float(course[-1] == (ANSWER, patient.option))


def questions(patient: Patient, course: Course) -> float:
    """Number of questions asked, the unanswered one of the last turn too."""
    return float(sum(kind == ASK for kind, _ in course))


@dataclass
class Table:
    """One number for each act in each state: logits, a gradient, or weights of chosen acts.

    Attributes:
        choice: float [states, 2], ask or answer.
        question: float [states, findings].
        answer: float [states, options].
    """

    choice: np.ndarray
    question: np.ndarray
    answer: np.ndarray

    PARTS = ("choice", "question", "answer")

    @classmethod
    def zeros(cls, clinic: TinyClinic) -> "Table":
        sizes = 2, clinic.findings, clinic.options
        return cls(*(np.zeros((len(clinic.states), size)) for size in sizes))

    @property
    def parts(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.choice, self.question, self.answer

    def content(self, kind: int) -> np.ndarray:
        """The part that a second token is of."""
        return self.question if kind == ASK else self.answer

    def combined(self, weight: float, other: "Table") -> "Table":
        """This plus `weight` times the other."""
        pairs = zip(self.parts, other.parts, strict=True)
        return Table(*(own + weight * one for own, one in pairs))


@dataclass(eq=False)
class TabularPolicy:
    """Softmax of separate logits in each state: first ask or answer, then which."""

    clinic: TinyClinic
    logits: Table
    probabilities: Table = field(init=False)

    def __post_init__(self):
        self.probabilities = Table(*(_softmax(part) for part in self.logits.parts))

    def probability(self, state: State, act: Act) -> float:
        """P(act | state), both tokens."""
        number, (kind, content) = self.clinic.states[state], act
        chosen = self.probabilities.choice[number, kind]
        return float(chosen * self.probabilities.content(kind)[number, content])

    def course_probability(self, patient: Patient, course: Course) -> float:
        """P(course | patient)."""
        pairs = zip(visited(patient, course), course, strict=True)
        return float(np.prod([self.probability(state, act) for state, act in pairs]))

    def value(self, patient: Patient, state: State) -> float:
        """Expected reward of playing on from a state, exact; 0 after the last turn."""
        if len(state) == self.clinic.turns:
            return 0.0
        right = self.probability(state, (ANSWER, patient.option))
        for finding in range(self.clinic.findings):
            later = (*state, (finding, patient.findings[finding]))
            right += self.probability(state, (ASK, finding)) * self.value(patient, later)
        return right

    def gradient(self, weights: Table) -> Table:
        """sum_s,k weights[s, k] * d log pi(k | s) / d logits: that of each part by itself."""
        pairs = zip(weights.parts, self.probabilities.parts, strict=True)
        return Table(*(w - w.sum(axis=1, keepdims=True) * p for w, p in pairs))


def expected(policy: TabularPolicy, amount: Callable[[Patient, Course], float] = reward) -> float:
    """Expected reward, or another amount, over all patients and courses: the objective J."""
    return sum(
        patient.probability * policy.course_probability(patient, course) * amount(patient, course)
        for patient in policy.clinic.patients
        for course in policy.clinic.courses
    )


def exact_gradient(
    policy: TabularPolicy, amount: Callable[[Patient, Course], float] = reward
) -> Table:
    """Gradient of `expected` in the logits: sum of P(course) amount(course) grad log P(course)."""
    weights = Table.zeros(policy.clinic)
    for patient in policy.clinic.patients:
        for course in policy.clinic.courses:
            share = patient.probability * policy.course_probability(patient, course)
            add_course(weights, policy.clinic, patient, course, share * amount(patient, course))
    return policy.gradient(weights)


def add_course(
    weights: Table, clinic: TinyClinic, patient: Patient, course: Course, amount: float
) -> None:
    """Add an amount to the weight of every token of a course."""
    for state, (kind, content) in zip(visited(patient, course), course, strict=True):
        number = clinic.states[state]
        weights.choice[number, kind] += amount
        weights.content(kind)[number, content] += amount


def _softmax(logits: np.ndarray) -> np.ndarray:
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    return shifted / shifted.sum(axis=1, keepdims=True)
