"""A clinic so small that everything in it is a finite sum, and a policy with a logit for each act.

A patient is a diagnosis and its findings. The doctor asks about a finding or names an option, in at
most `turns` turns; a question of the last turn is not answered. A response has two tokens: the
choice between asking and answering (`Question:` or `Final Answer:`), then the finding or the
option. A state is what was asked and answered so far, in order, as the actor sees it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import softmax

from credit_lab.two_token_policies import Parts

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
        patients = []
        for option in range(self.options):
            for shown in product((True, False), repeat=self.findings):
                likelihood = np.where(shown, self.present[:, option], 1 - self.present[:, option])
                probability = float(self.prior[option] * likelihood.prod())
                patients.append(Patient(option, shown, probability))
        return patients

    @cached_property
    def states(self) -> dict[State, int]:
        """State -> its number; those at which the doctor may act."""
        reached = {after(p, asked): None for asked in self._asked() for p in self.patients}
        return {state: number for number, state in enumerate(reached)}

    @cached_property
    def courses(self) -> list[Course]:
        """Every course that a consultation can take."""
        courses: list[Course] = []
        for asked in self._asked():
            questions = tuple((ASK, finding) for finding in asked)
            courses += [(*questions, (ANSWER, option)) for option in range(self.options)]
            if len(asked) == self.turns - 1:
                courses += [(*questions, (ASK, finding)) for finding in range(self.findings)]
        return courses

    def _asked(self) -> Iterator[tuple[int, ...]]:
        """Findings asked about before a turn, in order."""
        for count in range(self.turns):
            yield from product(range(self.findings), repeat=count)

    def zeros(self) -> Parts:
        """Zero for each token in each state: choice [states, 2], question and answer likewise."""
        sizes = 2, self.findings, self.options
        return Parts(*(np.zeros((len(self.states), size)) for size in sizes))

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


class TabularPolicy:
    """Softmax of separate logits in each state: first ask or answer, then which.

    Attributes:
        logits: see `TinyClinic.zeros`.
        probabilities: one for each token.
    """

    def __init__(self, clinic: TinyClinic, logits: Parts):
        self.clinic, self.logits = clinic, logits
        self.probabilities = Parts(*(softmax(part, axis=-1) for part in logits))

    def probability(self, state: State, act: Act) -> float:
        """P(act | state), both tokens."""
        number, (kind, content) = self.clinic.states[state], act
        chosen = self.probabilities.choice[number, kind]
        return float(chosen * content_of(self.probabilities, kind)[number, content])

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

    def gradient(self, weights: Parts) -> Parts:
        """sum_s,k weights[s, k] * d log pi(k | s) / d logits: that of each part by itself."""
        pairs = zip(weights, self.probabilities, strict=True)
        return Parts(*(w - w.sum(axis=1, keepdims=True) * p for w, p in pairs))


def content_of(parts: Parts, kind: int) -> np.ndarray:
    """The part of a response's second token."""
    return parts.question if kind == ASK else parts.answer


def exact_gradient(
    policy: TabularPolicy, amount: Callable[[Patient, Course], float] = reward
) -> Parts:
    """Gradient of the expected reward, or another amount, in the logits.

    It is the sum of P(course) amount(course) grad log P(course) over all patients and courses.
    """
    weights = policy.clinic.zeros()
    for patient in policy.clinic.patients:
        for course in policy.clinic.courses:
            share = patient.probability * policy.course_probability(patient, course)
            add_course(weights, policy.clinic, patient, course, share * amount(patient, course))
    return policy.gradient(weights)


def add_course(
    weights: Parts, clinic: TinyClinic, patient: Patient, course: Course, amount: ArrayLike
) -> None:
    """Add an amount, the same or one per turn, to the weights of both tokens of every turn."""
    turns = zip(visited(patient, course), course, np.broadcast_to(amount, len(course)), strict=True)
    for state, (kind, content), more in turns:
        number = clinic.states[state]
        weights.choice[number, kind] += more
        content_of(weights, kind)[number, content] += more


STEPS, RATE = 150, 2.0  # of the trained policies: well on their way, and not at their best yet


def policies(clinic: TinyClinic) -> dict[str, TabularPolicy]:
    """Name -> a policy at which gradients are compared; random ones have fixed seeds."""
    first, second = (random_policy(clinic, seed) for seed in (1, 2))
    return {
        "uniform": TabularPolicy(clinic, clinic.zeros()),
        "random 1": first,
        "random 2": second,
        "diagnoses well": diagnostician(clinic),
        "random 1, trained": trained(first),
        "diagnoses well, trained": trained(diagnostician(clinic)),
    }


def random_policy(clinic: TinyClinic, seed: int) -> TabularPolicy:
    """Standard normal logits."""
    rng = np.random.default_rng(seed)
    parts = (rng.standard_normal(part.shape) for part in clinic.zeros())
    return TabularPolicy(clinic, Parts(*parts))


def diagnostician(clinic: TinyClinic) -> TabularPolicy:
    """Answers with Bayes' posterior; asks, stops and chooses its questions at random."""
    logits = clinic.zeros()
    logits.answer = np.log([clinic.posterior(state) for state in clinic.states])
    return TabularPolicy(clinic, logits)


def trained(policy: TabularPolicy) -> TabularPolicy:
    """After `STEPS` steps along the exact gradient."""
    for _ in range(STEPS):
        policy = TabularPolicy(policy.clinic, policy.logits.plus(RATE, exact_gradient(policy)))
    return policy
