"""Consultations of all runs side by side, with candidate questions and what it all costs."""

from dataclasses import dataclass, fields

import numpy as np

from credit_lab.map.policy import Parameters, Seen, see
from credit_lab.map.simulated import Patients, SimulatedClinic, choose
from pcqc.system.seeds import generator


@dataclass
class Candidates:
    """Responses at the states of each case's first consultation, the executed one first.

    Attributes:
        supervised: bool [R, C], states at which the executed response is a question.
        asks: bool [R, C, K], responses that are questions.
        finding: int [R, C, K].
        utility: float [R, C, K], P(correct option) by the scorer; of a response that asks nothing,
            what it was before.
    """

    supervised: np.ndarray
    asks: np.ndarray
    finding: np.ndarray
    utility: np.ndarray


@dataclass
class Turn:
    """One turn of M = C * G consultations in each of R runs; those of a case stand together.

    Attributes:
        seen: the states.
        here: bool [R, M], the consultation was not over.
        answers: bool [R, M], it ends with this turn.
        chosen: bool, whether the policy chose to; at the end the answer is demanded.
        finding: int [R, M], the question if there is one.
        named: int [R, M], the option if there is one.
        candidates: of this turn, where there are any.
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


class Streams:
    """Random numbers of each run, named by seed and purpose."""

    def __init__(self, seed: int, runs: int, *purpose: str | int):
        self.each = [generator(seed, *purpose, run) for run in range(runs)]

    def uniform(self, *shape: int) -> np.ndarray:
        """float [R, *shape]."""
        return np.stack([one.random(shape) for one in self.each])

    def patients(self, clinic: SimulatedClinic, *shape: int) -> Patients:
        """Patients [R, *shape]."""
        drawn = [clinic.draw(one, *shape) for one in self.each]
        return Patients(
            *(np.stack([getattr(one, f.name) for one in drawn]) for f in fields(Patients))
        )


def roll_out(
    clinic: SimulatedClinic,
    policy: Parameters,
    cases: Patients,
    group: int,
    candidates: int,
    draws: Streams,
) -> Rollouts:
    """Sample `group` consultations of each case, to their end.

    Args:
        clinic: of the cell.
        policy: of the R runs.
        cases: [R, C].
        group: G_T.
        candidates: G_Q, responses at each state of a case's first consultation; 1: none more.
        draws: random numbers of the runs.
    """
    patients = cases.repeated(group)
    runs, count = patients.option.shape
    weight, asked = clinic.opening(patients)
    here, reward = np.ones((runs, count), bool), np.zeros((runs, count))
    cost, turns = np.zeros(runs, int), []
    for number in range(clinic.cell.turns + 1):
        last = number == clinic.cell.turns
        seen = see(policy, weight, asked, number / clinic.cell.turns)
        u = draws.uniform(count, 3)
        answers = here & (last | (u[..., 0] < seen.answering))
        asks = here & ~answers
        finding, named = choose(seen.questions, u[..., 1]), choose(seen.answers, u[..., 1])
        reward += answers & (named == patients.option)
        cost += here.sum(1) + asks.sum(1)
        heard = clinic.answer(patients, finding, u[..., 2])
        compared = None
        if candidates > 1 and not last:
            state = First(weight, asked, asks, finding, heard, group)
            compared, more = compare(clinic, cases, seen, state, candidates, draws)
            cost += more
        turns.append(Turn(seen, here, answers, not last, finding, named, compared))
        weight, asked = clinic.learn(weight, asked, finding, heard, asks)
        here = asks
    return Rollouts(turns, reward, cost)


@dataclass
class First:
    """A turn, of which the first consultation of each group of M counts."""

    weight: np.ndarray
    asked: np.ndarray
    asks: np.ndarray
    finding: np.ndarray
    heard: np.ndarray
    group: int

    def __post_init__(self):
        own = ("weight", "asked", "asks", "finding", "heard")
        for name in own:
            setattr(self, name, getattr(self, name)[:, :: self.group])


def compare(
    clinic: SimulatedClinic,
    cases: Patients,
    seen: Seen,
    first: First,
    count: int,
    draws: Streams,
) -> tuple[Candidates, np.ndarray]:
    """Candidates at the states of the first consultations, and what they cost beside, int [R].

    The scorer reads the state itself and each candidate's exchange, as in `score_groups`.
    """
    u = draws.uniform(cases.option.shape[1], count, 4)
    of_first = seen.questions[:, :: first.group, None, :]
    more = choose(np.broadcast_to(of_first, (*u.shape[:3], of_first.shape[-1])), u[..., 1])
    asks = u[..., 0] >= seen.answering[:, :: first.group, None]
    heard = clinic.answer(cases, more, u[..., 2])
    asks[..., 0], more[..., 0], heard[..., 0] = first.asks, first.finding, first.heard
    read = heard ^ (u[..., 3] < clinic.cell.scorer_error)
    utility = clinic.utility(first.weight, first.asked, cases, more, read)
    before = np.take_along_axis(seen.posterior[:, :: first.group], cases.option[..., None], -1)
    utility = np.where(asks, utility, before)
    # Candidates are drawn wherever the consultation goes on; answered and read where it asks.
    sampled = (count - 1) * first.asks.sum(1)
    answered = (asks[..., 1:] & first.asks[..., None]).sum((1, 2))
    scored = (count + 1) * first.asks.sum(1)
    return Candidates(first.asks, asks, more, utility), sampled + answered + scored
