"""What is known of a cell before anything is trained, and the prediction that follows from it.

The Bayes diagnosis is the judge throughout: it knows base rates, noise and the patient's error.
"""

from dataclasses import dataclass

import numpy as np

from credit_lab.map.settings import Cell, Map
from credit_lab.map.simulated import SimulatedClinic
from pcqc.cases.case import Case
from pcqc.clinic.posterior import best_accuracy, random_accuracy
from pcqc.clinic.world import COMPLAINTS, FINDINGS, LABELS, QUESTION, World, state_complaint
from pcqc.system.seeds import generator

AHEAD, NONE, BEHIND = "ahead", "none", "behind"


@dataclass(frozen=True)
class Prediction:
    """What the rule says of a cell, and what it says it from.

    Attributes:
        best_over_average: points of accuracy that a best question adds over an average one, mean
            over the states that random questions reach, each question taken as the last.
        headroom: accuracy after best questions until the last turn, less that after random ones.
        fidelity: of two random questions, the share of the better one's lead in value that goes to
            the one with the higher credit; -1 to 1, by `Rule.states` sampled states.
        advantage: headroom times fidelity, in points.
        predicted: PCQC `ahead` of GRPO, `behind`, or `none`: no difference.
        scaled: advantage times what came of a point of it on the pilot cell, in points.
        predicted_scaled: what that says by the margin.
    """

    best_over_average: float
    headroom: float
    fidelity: float
    advantage: float
    predicted: str
    scaled: float
    predicted_scaled: str


def predict(settings: Map, name: str) -> Prediction:
    """The prediction for a cell, without training."""
    cell, rule = settings.cell(name), settings.rule
    rng = generator(settings.seed, "fidelity")  # the same patients in every cell
    room, faithful = headroom(cell), fidelity(cell, rule.states, rng)
    advantage = room * faithful
    scaled = rule.scale * advantage
    return Prediction(
        best_over_average(cell),
        room,
        faithful,
        advantage,
        verdict(advantage, rule.ahead),
        scaled,
        verdict(scaled, rule.margin),
    )


def verdict(points: float, enough: float) -> str:
    """The rule: an advantage counts from so many points on."""
    if abs(points) < enough:
        return NONE
    return AHEAD if points > 0 else BEHIND


def best_over_average(cell: Cell) -> float:
    """Points that a best question adds over an average one; mean over the turns."""
    world, case = as_case(cell)
    gaps = [
        best_accuracy(world, case, 1, after_random=before)
        - random_accuracy(world, case, before + 1)
        for before in range(cell.turns)
    ]
    return 100 * float(np.mean(gaps))


def headroom(cell: Cell) -> float:
    """Points between best and random questions, as many as there are turns."""
    world, case = as_case(cell)
    most = best_accuracy(world, case, cell.turns)
    return 100 * (most - random_accuracy(world, case, cell.turns))


def fidelity(cell: Cell, states: int, rng: np.random.Generator) -> float:
    """See `Prediction`; 1 were the credit always on the better question's side.

    Args:
        cell: of the map.
        states: sampled: random different questions before, then two different ones compared.
        rng: for the states.
    """
    clinic = SimulatedClinic(cell)
    patients = clinic.draw(rng, states)
    order = rng.random((states, cell.findings)).argsort(axis=1)
    before = rng.integers(0, min(cell.turns, cell.findings - 1), states)
    weight, asked = clinic.opening(patients)
    for turn in range(cell.turns):
        heard = clinic.answer(patients, order[:, turn % cell.findings], rng.random(states))
        weight, asked = clinic.learn(
            weight, asked, order[:, turn % cell.findings], heard, turn < before
        )
    pair = np.stack([np.take_along_axis(order, (before + k)[:, None], 1)[:, 0] for k in (0, 1)], 1)
    values = np.stack([clinic.value(weight, pair[:, k]) for k in (0, 1)], axis=1)
    told = clinic.answer(patients, pair, rng.random((states, 2)))
    read = told ^ (rng.random((states, 2)) < cell.scorer_error)
    seen = clinic.utility(weight, asked, patients, pair, read)
    lead = values[:, 0] - values[:, 1]
    favoured = np.sign(np.round(seen[:, 0] - seen[:, 1], 9))
    return float((lead * favoured).sum() / np.abs(lead).sum())


def as_case(cell: Cell) -> tuple[World, Case]:
    """The cell as the clinic has it: a world, and a case whose first half of options is likelier.

    Which half it is changes no value.
    """
    names = FINDINGS[: cell.findings]
    signs = np.where(np.eye(len(names), dtype=bool), 1 - cell.heard, cell.heard)
    prior = SimulatedClinic(cell).complained
    weights = [(float(prior[d]),) if d < cell.options else (1.0,) for d in range(len(names))]
    world = World(
        names,
        names,
        tuple(tuple(map(float, row)) for row in signs),
        COMPLAINTS[:1],
        tuple(weights),
        (1 / len(names),) * len(names),
    )
    options = dict(zip(LABELS, names[: cell.options], strict=False))
    opening = state_complaint(COMPLAINTS[0], "plain")
    return world, Case("map-0", "clinic", opening, QUESTION, options, (), LABELS[0])
