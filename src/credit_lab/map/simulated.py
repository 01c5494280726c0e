"""The clinic of one cell, many patients at a time.

As in `clinic_env.world`: a disease shows its own sign with probability 1 - noise and any other
with the noise; a complaint makes a random half of the options three times as likely. Findings
0 .. options - 1 are the options' signs; the others are signs of diseases that are no options.
All arrays have leading axes of patients, written [...].
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import softmax

from credit_lab.map.settings import Cell

FLOAT = np.float32  # a quarter faster than twice the digits
ODDS = 3.0  # of an option that the complaint makes likelier, as in config/studies/clinic.yaml


@dataclass
class Patients:
    """Drawn patients.

    Attributes:
        prior: float [..., options], log of P(option | complaint).
        option: int [...], the correct one.
        facts: bool [..., findings], which are present.
    """

    prior: np.ndarray
    option: np.ndarray
    facts: np.ndarray

    def repeated(self, group: int) -> "Patients":
        """Each patient of the last axis `group` times in a row."""
        axis = self.option.ndim - 1
        return Patients(*(np.repeat(array, group, axis) for array in vars(self).values()))


class SimulatedClinic:
    """The clinic of one cell.

    Attributes:
        present: float [findings, options], P(finding | option).
        complained: float [options], weights of the options if the first half is likelier.
        log_answer: float [2, findings, options], log P(answer | option), by noise and patient.
    """

    def __init__(self, cell: Cell):
        self.cell = cell
        half = np.arange(cell.options) < cell.options // 2
        self.complained = np.where(half, ODDS, 1.0)
        own = np.eye(cell.findings, cell.options, dtype=bool)
        self.present = np.where(own, 1 - cell.noise, cell.noise)
        heard = np.where(own, 1 - cell.heard, cell.heard)
        self.log_answer = np.log(np.stack([1 - heard, heard])).astype(FLOAT)

    def draw(self, rng: np.random.Generator, *shape: int) -> Patients:
        """Patients: the complaint first, then the option, then every finding."""
        order = uniform(rng, *shape, self.cell.options).argsort(axis=-1)
        prior = (self.complained / self.complained.sum()).astype(FLOAT)[order]
        option = choose(prior, uniform(rng, *shape))
        shown = uniform(rng, *shape, self.cell.findings) < self.present.T[option]
        return Patients(np.log(prior), option, shown)

    def opening(self, patients: Patients) -> tuple[np.ndarray, np.ndarray]:
        """Before any question: log weights [..., options] and what was asked [..., findings]."""
        return patients.prior.copy(), np.zeros(patients.facts.shape, bool)

    def answer(self, patients: Patients, finding: np.ndarray, draw: np.ndarray) -> np.ndarray:
        """What patients say about findings; wrong where the draw is below the patient's error.

        Args:
            patients: [...].
            finding: int [...], or [..., K] for K questions to each.
            draw: of the same shape, uniform.
        """
        places = finding.reshape(*patients.option.shape, -1)
        true = np.take_along_axis(patients.facts, places, axis=-1).reshape(finding.shape)
        return true ^ (draw < self.cell.patient_error)

    def learn(
        self,
        weight: np.ndarray,
        asked: np.ndarray,
        finding: np.ndarray,
        heard: np.ndarray,
        where: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Log weights and what was asked after answers; a repeated question says nothing.

        Args:
            weight: float [..., options].
            asked: bool [..., findings].
            finding: int [...].
            heard: bool [...].
            where: bool [...], which patients were asked.
        """
        new = where & ~np.take_along_axis(asked, finding[..., None], -1)[..., 0]
        weight = weight + new[..., None] * self.log_answer[heard.astype(int), finding]
        this = np.arange(self.cell.findings) == finding[..., None]
        return weight, asked | (where[..., None] & this)

    def utility(
        self,
        weight: np.ndarray,
        asked: np.ndarray,
        patients: Patients,
        finding: np.ndarray,
        read: np.ndarray,
    ) -> np.ndarray:
        """P(correct option) after each of K questions and its answer as read, [..., K].

        A repeated question leaves it as it is.
        """
        new = ~np.take_along_axis(asked, finding, axis=-1)
        evidence = new[..., None] * self.log_answer[read.astype(int), finding]
        after = softmax(weight[..., None, :] + evidence, axis=-1)
        right = np.broadcast_to(patients.option[..., None, None], (*finding.shape, 1))
        return np.take_along_axis(after, right, -1)[..., 0]


def uniform(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Numbers uniform on [0, 1)."""
    return rng.random(shape, FLOAT)


def choose(probability: np.ndarray, draw: np.ndarray) -> np.ndarray:
    """An index of the last axis, by one uniform number each, int [...]."""
    below = probability.cumsum(axis=-1)[..., :-1] <= draw[..., None]
    return below.sum(axis=-1)
