"""Consultations of all runs side by side, with candidate questions and the cost of everything."""

from dataclasses import dataclass

import numpy as np

from credit_lab.map.policy import Seen, see
from credit_lab.map.simulated import FLOAT, Patients, SimulatedClinic, choose, uniform
from credit_lab.parts import Parts


@dataclass
class Candidates:
    """Responses at the states of each case's first consultation, the executed one first.

    Attributes:
        supervised: bool [R, C], states at which the executed response is a question, as many of
            them as the cell covers.
        asks: bool [R, C, K], responses that are questions.
        finding: int [R, C, K].
        utility: float [R, C, K], P(correct option) by the scorer; of a response that asks nothing,
            that before it.
        before: float [R, C], the same before the response.
    """

    supervised: np.ndarray
    asks: np.ndarray
    finding: np.ndarray
    utility: np.ndarray
    before: np.ndarray


@dataclass
class Turn:
    """One turn of M = C * G consultations in each of R runs; those of a case stand together.

    Attributes:
        seen: the states.
        here: bool [R, M], the consultation was not over.
        answers: bool [R, M], it ends with this turn.
        chosen: whether the policy chose between asking and answering; at the end it must answer.
        finding: int [R, M], the question if it asks.
        named: int [R, M], the option if it answers.
        candidates: of this turn; None where none were drawn.
    """

    seen: Seen
    here: np.ndarray
    answers: np.ndarray
    chosen: bool
    finding: np.ndarray
    named: np.ndarray
    candidates: Candidates | None


@dataclass
class Rollouts:
    """What was sampled in an update.

    Attributes:
        turns: all turns.
        reward: float [R, M], 1 where the named option is the correct one.
        cost: int [R], responses sampled, answers given and states scored.
    """

    turns: list[Turn]
    reward: np.ndarray
    cost: np.ndarray


def roll_out(
    clinic: SimulatedClinic,
    policy: Parts,
    cases: Patients,
    group: int,
    candidates: int,
    rng: np.random.Generator,
    start: tuple[np.ndarray, np.ndarray] | None = None,
) -> Rollouts:
    """Sample `group` consultations of each case, to their end.

    Args:
        clinic: of the cell.
        policy: of the R runs.
        cases: [R, C].
        group: G_T.
        candidates: G_Q, responses at each state of a case's first consultation; 1: none more.
        rng: for everything that is drawn.
        start: log weights and what was asked after a first question; by default nothing was.
    """
    patients = cases.repeated(group)
    runs, count = patients.option.shape
    weight, asked = start or clinic.opening(patients)
    here, reward = np.ones((runs, count), bool), np.zeros((runs, count), FLOAT)
    cost, turns = np.zeros(runs, int), []
    for number in range(1 if start else 0, clinic.cell.turns + 1):
        last = number == clinic.cell.turns
        seen = see(policy, weight, asked, number / clinic.cell.turns)
        u = uniform(rng, 3, runs, count)
        answers = here & (last | (u[0] < seen.answering))
        asks = here & ~answers
        finding, named = choose(seen.questions, u[1]), choose(seen.answers, u[1])
        reward += answers & (named == patients.option)
        cost += here.sum(1) + asks.sum(1)
        heard = clinic.answer(patients, finding, u[2])
        compared = None
        if candidates > 1 and not last:
            executed = (array[:, ::group] for array in (weight, asked, asks, finding, heard))
            compared, more = compare(
                clinic, cases, seen.every(group), *executed, count=candidates, rng=rng
            )
            cost += more
        turns.append(Turn(seen, here, answers, not last, finding, named, compared))
        weight, asked = clinic.learn(weight, asked, finding, heard, asks)
        here = asks
    return Rollouts(turns, reward, cost)


def compare(
    clinic: SimulatedClinic,
    cases: Patients,
    seen: Seen,
    weight: np.ndarray,
    asked: np.ndarray,
    asks: np.ndarray,
    finding: np.ndarray,
    heard: np.ndarray,
    *,
    count: int,
    rng: np.random.Generator,
) -> tuple[Candidates, np.ndarray]:
    """Candidates at the states of the cases' first consultations.

    Args:
        clinic: of the cell.
        cases: [R, C].
        seen: the states.
        weight: float [R, C, options], log weights of the options.
        asked: bool [R, C, findings].
        asks, finding, heard: [R, C], the executed response, its question and the answer.
        count: G_Q.
        rng: for everything that is drawn.

    Returns:
        The candidates, and their cost beside the executed ones', int [R]. The scorer reads the
        state itself and each candidate's exchange, as in `score_groups`.
    """
    u = uniform(rng, 4, *asks.shape, count)
    supervised = asks & (uniform(rng, *asks.shape) < clinic.cell.coverage)
    every_finding = choose(seen.questions[:, :, None, :], u[1])
    every_asks = u[0] >= seen.answering[:, :, None]
    every_heard = clinic.answer(cases, every_finding, u[2])
    every_asks[..., 0], every_finding[..., 0], every_heard[..., 0] = asks, finding, heard
    read = every_heard ^ (u[3] < clinic.cell.scorer_error)
    utility = clinic.utility(weight, asked, cases, every_finding, read)
    before = np.take_along_axis(seen.posterior, cases.option[..., None], -1)
    utility = np.where(every_asks, utility, before)
    # Each state has count - 1 responses more, their answers, and count + 1 readings.
    answered = (every_asks[..., 1:] & supervised[..., None]).sum((1, 2))
    cost = 2 * count * supervised.sum(1) + answered
    return Candidates(supervised, every_asks, every_finding, utility, before[..., 0]), cost
