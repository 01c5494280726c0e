"""A linear-softmax doctor, one for each run: a table of states would be too large to learn.

It reads the exact posterior, and decides in two tokens as the audit's does: ask or answer, then
which. Its three parts share no parameter, so that credit for questions changes questions alone.
All arrays start with an axis of R runs, whose policies differ.
"""

from dataclasses import dataclass

import numpy as np

from credit_lab.map.settings import Cell
from credit_lab.map.simulated import softmax

SURE = 1e-3  # a smaller posterior probability is as small for the answer's features
DECAYS, TINY = (0.9, 0.999), 1e-8  # Adam's, as torch has them


@dataclass
class Parameters:
    """Of each run's policy, or a gradient in them.

    Attributes:
        choice: float [R, 1, 3], of the logit of answering, the logit of asking being 0.
        question: float [R, findings, 1 + options + findings].
        answer: float [R, options, options].
    """

    choice: np.ndarray
    question: np.ndarray
    answer: np.ndarray

    @property
    def parts(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.choice, self.question, self.answer

    def zeros(self) -> "Parameters":
        return Parameters(*(np.zeros_like(part) for part in self.parts))

    def copy(self) -> "Parameters":
        return Parameters(*(part.copy() for part in self.parts))

    def take(self, other: "Parameters", where: np.ndarray) -> None:
        """Take over the parameters of some runs, bool [R]."""
        for own, new in zip(self.parts, other.parts, strict=True):
            own[where] = new[where]


def untrained(cell: Cell, runs: int, chance_to_answer: float) -> Parameters:
    """Answers with Bayes' posterior and asks at random, as the audit's "diagnoses well" does."""
    choice = np.zeros((runs, 1, 3))
    choice[:, 0, 0] = np.log(chance_to_answer / (1 - chance_to_answer))
    question = np.zeros((runs, cell.findings, 1 + cell.options + cell.findings))
    answer = np.repeat(np.eye(cell.options)[None], runs, axis=0)
    return Parameters(choice, question, answer)


@dataclass
class Seen:
    """What the policies see at M states each, and how likely they make every act.

    Attributes:
        choice: float [R, M, 3], features: 1, the largest posterior probability, turns used.
        question: float [R, M, 1 + options + findings]: 1, the posterior, what was asked.
        answer: float [R, M, options], the log posterior.
        answering: float [R, M], P(answer).
        questions: float [R, M, findings], P(question | ask).
        answers: float [R, M, options], P(option | answer).
        posterior: float [R, M, options].
    """

    choice: np.ndarray
    question: np.ndarray
    answer: np.ndarray
    answering: np.ndarray
    questions: np.ndarray
    answers: np.ndarray
    posterior: np.ndarray


def see(policy: Parameters, weight: np.ndarray, asked: np.ndarray, used: float) -> Seen:
    """The policies at states.

    Args:
        policy: of R runs.
        weight: float [R, M, options], log weights of the options.
        asked: bool [R, M, findings].
        used: share of the turns that are over.
    """
    posterior = softmax(weight)
    one = np.ones((*weight.shape[:-1], 1))
    choice = np.concatenate([one, posterior.max(-1, keepdims=True), used * one], axis=-1)
    question = np.concatenate([one, posterior, asked], axis=-1)
    answer = np.log(np.maximum(posterior, SURE))
    logit = _logits(choice, policy.choice)[..., 0]
    return Seen(
        choice,
        question,
        answer,
        1 / (1 + np.exp(-logit)),
        softmax(_logits(question, policy.question)),
        softmax(_logits(answer, policy.answer)),
        posterior,
    )


def push_choice(gradient: Parameters, seen: Seen, answers: np.ndarray, push: np.ndarray) -> None:
    """Add push * d log P(choice): `answers` bool [R, M], `push` float [R, M]."""
    error = (push * (answers - seen.answering))[..., None]
    gradient.choice += error.swapaxes(1, 2) @ seen.choice


def push_question(gradient: Parameters, seen: Seen, asked: np.ndarray, push: np.ndarray) -> None:
    """Add the sum of push * d log P(question), `asked` int [R, M], `push` float [R, M]."""
    gradient.question += _pushed(seen.questions, seen.question, asked, push)


def push_answer(gradient: Parameters, seen: Seen, named: np.ndarray, push: np.ndarray) -> None:
    """Add the sum of push * d log P(option), `named` int [R, M], `push` float [R, M]."""
    gradient.answer += _pushed(seen.answers, seen.answer, named, push)


def _pushed(
    probability: np.ndarray, features: np.ndarray, chosen: np.ndarray, push: np.ndarray
) -> np.ndarray:
    one = np.arange(probability.shape[-1]) == chosen[..., None]
    return ((one - probability) * push[..., None]).swapaxes(1, 2) @ features


def _logits(features: np.ndarray, part: np.ndarray) -> np.ndarray:
    return features @ part.swapaxes(1, 2)


class Adam:
    """Gradient ascent by Adam (Kingma and Ba 2015), a step for each run that still learns."""

    def __init__(self, policy: Parameters, rate: float):
        self.policy, self.rate = policy, rate
        self.first, self.second, self.steps = policy.zeros(), policy.zeros(), 0

    def step(self, gradient: Parameters, learning: np.ndarray) -> None:
        """One step; `learning` bool [R]: the other runs stay as they are."""
        self.steps += 1
        a, b = DECAYS
        rows = zip(
            self.policy.parts,
            gradient.parts,
            self.first.parts,
            self.second.parts,
            strict=True,
        )
        for own, new, first, second in rows:
            first += (1 - a) * (new - first)
            second += (1 - b) * (new * new - second)
            size = np.sqrt(second / (1 - b**self.steps)) + TINY
            own += self.rate * learning[:, None, None] * (first / (1 - a**self.steps)) / size
