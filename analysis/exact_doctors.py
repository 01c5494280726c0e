"""Doctors that methods are measured by: best or random questions, then the Bayes diagnosis.

They ask a case's facts as a patient without errors would tell them, and stop as recorded
consultations do, when one option is left. A method that stops early where a case is easy can beat
a doctor who asks as many questions of every case; it is to be compared with one who stops too.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clinic_env.world import World, read_findings
from pcqc.cases.case import Case
from pcqc.cases.prompts import Exchange
from pcqc.clinic import quality
from pcqc.clinic.consultations import best_exchanges, random_exchanges
from pcqc.system.seeds import generator

DRAWS = 8  # consultations of a case with random questions


@dataclass(frozen=True)
class ExactDoctor:
    """Means over cases, where at most 0, 1, 2, ... questions may be asked.

    Attributes:
        asked: [limits] questions asked.
        accuracy: [limits] of the Bayes diagnosis on their answers, in percent.
    """

    asked: np.ndarray
    accuracy: np.ndarray

    def after(self, questions: float) -> float:
        """Accuracy at a mean number of questions, from the straight line between two limits."""
        return float(np.interp(questions, self.asked, self.accuracy))


def exact_doctor(
    world: World, cases: Sequence[Case], rates: np.ndarray, most: int, *, best: bool
) -> ExactDoctor:
    """Consult on every case, `DRAWS` times each with random questions.

    Args:
        world: the clinic.
        cases: to consult on.
        rates: base rates of the D diseases, for the diagnosis.
        most: questions that may be asked.
        best: ask best questions, not random ones.
    """
    if best:
        consultations = [(case, best_exchanges(world, case, most)) for case in cases]
    else:
        rng = generator(0, "random questions")
        drawn = [case for case in cases for _ in range(DRAWS)]
        consultations = [(case, random_exchanges(world, case, most, rng)) for case in drawn]
    asked = np.minimum.outer(range(most + 1), [len(exchanges) for _, exchanges in consultations])
    diagnosis = [
        _by_limit(world, case, exchanges, rates, most) for case, exchanges in consultations
    ]
    return ExactDoctor(asked.mean(axis=1), 100 * np.mean(diagnosis, axis=0))


def _by_limit(
    world: World, case: Case, exchanges: list[Exchange], rates: np.ndarray, most: int
) -> list[float]:
    """Chance of the correct diagnosis after at most 0, ..., `most` of these questions."""
    answered: dict[int, bool] = {}
    chances = [quality.diagnosis(world, case, answered, rates)]
    for exchange in exchanges:
        answered |= read_findings(world, exchange.answer)
        chances.append(quality.diagnosis(world, case, answered, rates))
    return chances + [chances[-1]] * (most - len(exchanges))
