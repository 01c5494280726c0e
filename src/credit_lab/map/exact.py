"""What is known exactly of a cell before training, and the prediction that follows from it.

Accuracies are those of the Bayes diagnosis, which knows base rates, noise and the patient's error.
"""

from dataclasses import dataclass

import numpy as np

from clinic_env.posterior import best_accuracy, random_accuracy
from clinic_env.world import COMPLAINTS, FINDINGS, LABELS, QUESTION, World, state_complaint
from credit_lab.map.settings import Cell, Map
from credit_lab.map.simulated import SimulatedClinic
from pcqc.cases.case import Case
from pcqc.system.seeds import generator

AHEAD, NONE, BEHIND = "ahead", "none", "behind"  # PCQC against GRPO


@dataclass(frozen=True)
class Prediction:
    """What the rule says of a cell, and the numbers that it is computed from.

    Attributes:
        best_over_average: points of accuracy that a best question adds over an average one, mean
            over the states that random questions reach, each question taken as the last.
        headroom: accuracy after best questions until the last turn, less that after random ones.
        fidelity: of two random questions, the share of the better one's lead in value that goes to
            the one with the higher credit; -1 to 1, by `Rule.states` sampled states.
        advantage: headroom times fidelity, in points.
        predicted: PCQC `ahead` of GRPO, `behind`, or `none`: no difference.
        scaled: advantage times the pilot's gain per point of advantage, in points.
        predicted_scaled: the same prediction by `scaled` and the margin.
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
    predicted, predicted_scaled = (
        NONE if abs(points) < enough else AHEAD if points > 0 else BEHIND
        for points, enough in ((advantage, rule.ahead), (scaled, rule.margin))
    )
    return Prediction(
        best_over_average(cell), room, faithful, advantage, predicted, scaled, predicted_scaled
    )


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
    """See `Prediction`; 1 if the better question always had the higher credit.

    Args:
        cell: of the map.
        states: number sampled. Before each, some random questions were asked, all different; two
            further ones are compared.
        rng: for the states.
    """
    clinic = SimulatedClinic(cell)
    patients = clinic.draw(rng, states)
    order = rng.random((states, cell.findings)).argsort(axis=1)
    before = rng.integers(0, min(cell.turns, cell.findings - 1), states)
    weight, asked = clinic.opening(patients)
    for turn in range(cell.turns):
        finding = order[:, turn % cell.findings]
        heard = clinic.answer(patients, finding, rng.random(states))
        weight, asked = clinic.learn(weight, asked, finding, heard, turn < before)
    pair = np.take_along_axis(order, before[:, None] + (0, 1), axis=1)
    values = np.stack([clinic.value(weight, pair[:, k]) for k in (0, 1)], axis=1)
    heard = clinic.answer(patients, pair, rng.random((states, 2)))
    read = heard ^ (rng.random((states, 2)) < cell.scorer_error)
    utility = clinic.utility(weight, asked, patients, pair, read)
    lead = values[:, 0] - values[:, 1]
    favoured = np.sign(np.round(utility[:, 0] - utility[:, 1], 9))
    return float((lead * favoured).sum() / np.abs(lead).sum())


def as_case(cell: Cell) -> tuple[World, Case]:
    """The cell as the clinic has it: a world, and a case whose first half of options is likelier.

    Values are the same whichever half it is.
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
