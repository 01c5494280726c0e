"""A linear-softmax doctor for each run: a table of states would be too large to learn.

It reads the exact posterior and decides in two tokens. All arrays start with an axis of R runs,
whose policies differ.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import softmax

from credit_lab.map.settings import Cell
from credit_lab.map.simulated import FLOAT
from credit_lab.parts import Parts

SURE = 1e-3  # the answer's features do not tell smaller posterior probabilities apart
DECAYS, TINY = (0.9, 0.999), 1e-8  # Adam's, as torch has them


def untrained(cell: Cell, runs: int, chance_to_answer: float) -> Parts:
    """Answers with Bayes' posterior and asks at random.

    Returns:
        choice float [R, 1, 3] of the logit of answering (that of asking is 0), question float
        [R, findings, 1 + options + findings], answer float [R, options, options]; last the
        features, see `Seen`.
    """
    choice = np.zeros((runs, 1, 3))
    choice[:, 0, 0] = np.log(chance_to_answer / (1 - chance_to_answer))
    question = np.zeros((runs, cell.findings, 1 + cell.options + cell.findings))
    answer = np.repeat(np.eye(cell.options)[None], runs, axis=0)
    return Parts(*(part.astype(FLOAT) for part in (choice, question, answer)))


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

    def every(self, group: int) -> "Seen":
        """Every `group`-th state."""
        return Seen(*(array[:, ::group] for array in vars(self).values()))


def see(policy: Parts, weight: np.ndarray, asked: np.ndarray, used: float) -> Seen:
    """The policies at states.

    Args:
        policy: of R runs.
        weight: float [R, M, options], log weights of the options.
        asked: bool [R, M, findings].
        used: share of the turns that are over.
    """
    posterior = softmax(weight, axis=-1)
    ones = np.ones_like(posterior[..., :1])
    choice = np.concatenate([ones, posterior.max(-1, keepdims=True), used * ones], axis=-1)
    question = np.concatenate([ones, posterior, asked], axis=-1)
    answer = np.log(np.maximum(posterior, SURE))
    to_answer, questions, answers = (
        features @ part.swapaxes(1, 2)
        for features, part in zip((choice, question, answer), policy, strict=True)
    )
    answering = 1 / (1 + np.exp(-to_answer[..., 0]))
    questions, answers = softmax(questions, axis=-1), softmax(answers, axis=-1)
    return Seen(choice, question, answer, answering, questions, answers, posterior)


def pushed_choice(seen: Seen, answers: np.ndarray, push: np.ndarray) -> np.ndarray:
    """Sum of push * d log P(choice): `answers` bool [R, M], `push` float [R, M]."""
    error = (push * (answers - seen.answering))[..., None]
    return error.swapaxes(1, 2) @ seen.choice


def pushed(
    probability: np.ndarray, features: np.ndarray, chosen: np.ndarray, push: np.ndarray
) -> np.ndarray:
    """Sum of push * d log P(chosen), of questions or of answers.

    Args:
        probability: float [R, M, acts].
        features: float [R, M, features].
        chosen: int [R, M], or [R, M, K] of K candidates.
        push: float, of the same shape.
    """
    shape = (*probability.shape[:2], -1)
    each, size = chosen.reshape(shape)[..., None], push.reshape(shape)
    pushes = (size[..., None] * (each == np.arange(probability.shape[-1]))).sum(2)
    error = pushes - size.sum(-1, keepdims=True) * probability
    return error.swapaxes(1, 2) @ features


class Adam:
    """Gradient ascent by Adam (Kingma and Ba 2015), a step for each run that still learns."""

    def __init__(self, policy: Parts, rate: float):
        self.policy, self.rate = policy, rate
        self.first, self.second, self.steps = policy.zeros(), policy.zeros(), 0

    def step(self, gradient: Parts, learning: np.ndarray) -> None:
        """One step; `learning` bool [R]: the other runs stay as they are."""
        self.steps += 1
        a, b = DECAYS
        rows = zip(self.policy, gradient, self.first, self.second, strict=True)
        for own, new, first, second in rows:
            first += (1 - a) * (new - first)
            second += (1 - b) * (new * new - second)
            size = np.sqrt(second / (1 - b**self.steps)) + TINY
            own += self.rate * learning[:, None, None] * (first / (1 - a**self.steps)) / size
