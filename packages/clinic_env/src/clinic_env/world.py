"""The synthetic clinic: diseases, their signs, and how a case is drawn from them.

Every disease has a sign of its own, a finding that hardly any other disease shows, so each question
can confirm or rule out one option. A case opens with a complaint, which makes some options likelier
than others and which nobody can ask about. Given the disease the findings are independent, so the
posterior is exact (`posterior.py`).
"""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

# A disease has the name of its sign, the colour of its spots: a small model then matches the two as
# equal words, and need not learn which belong together.
FINDINGS = (
    "amber", "azure", "coral", "crimson", "ebony", "emerald", "golden", "indigo", "ivory", "jade",
    "lilac", "maroon", "olive", "russet", "silver", "violet",
)  # fmt: skip
COMPLAINTS = ("fatigue", "pallor", "weakness", "aching", "malaise", "unrest")
QUESTION = "Which diagnosis is most likely?"
LABELS = "ABCDEFGH"
# How a text states what is present or absent, by wording.
WORDINGS = {"plain": ("present", "absent"), "reported": ("reported", "denied")}
_STATEMENT = re.compile(r"\b(\w+) spots (present|reported|absent|denied)\b")
_WORD = re.compile(r"\w+")


class Opening(Protocol):
    """What a doctor is told of a case, and the posterior reads: its opening and its options."""

    @property
    def initial(self) -> str: ...

    @property
    def options(self) -> Mapping[str, str]: ...


@dataclass(frozen=True)
class World:
    """Diseases x findings.

    Attributes:
        diseases: D names.
        findings: F names of what can be asked about; each is the sign of one disease, D = F.
        probability: D x F, P(finding | disease).
        complaints: C names of what a case can open with.
        complaint_probability: D x C, P(complaint | disease), up to a factor.
        skewed_rates: D base rates of the independent source.
    """

    diseases: tuple[str, ...]
    findings: tuple[str, ...]
    probability: tuple[tuple[float, ...], ...]
    complaints: tuple[str, ...]
    complaint_probability: tuple[tuple[float, ...], ...]
    skewed_rates: tuple[float, ...]

    @cached_property
    def table(self) -> np.ndarray:
        """P(finding | disease) as a D x F array, for reading alone."""
        return _constant(self.probability)

    @cached_property
    def _complaint_table(self) -> np.ndarray:
        return _constant(self.complaint_probability)

    def complaint_likelihood(self, case: Opening) -> np.ndarray:
        """P(the case's complaint | disease) of the D diseases, up to a factor.

        Raises:
            ValueError: its initial information names no complaint of this world, or several.
        """
        named = {word for word in _WORD.findall(case.initial) if word in self.complaints}
        if len(named) != 1:
            raise ValueError(f"{case.initial!r} names {len(named)} complaints of this world, not 1")
        return self._complaint_table[:, self.complaints.index(*named)]

    def rates(self, kind: str) -> np.ndarray:
        """Base rates of the D diseases, `uniform` or `skewed`."""
        uniform = np.full(len(self.diseases), 1 / len(self.diseases))
        return uniform if kind == "uniform" else np.array(self.skewed_rates)

    @cached_property
    def finding_numbers(self) -> dict[str, int]:
        """Name of a finding -> its index."""
        return {name: number for number, name in enumerate(self.findings)}

    def to_json(self) -> dict[str, Any]:
        """The world as JSON has it."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Any) -> "World":
        """The world of `to_json`.

        Raises:
            ValueError: it is none, or its sizes disagree.
        """
        try:
            names = [_names(value[key]) for key in ("diseases", "findings", "complaints")]
            keys = ("probability", "complaint_probability", "skewed_rates")
            tables = [np.array(value[key], np.float64) for key in keys]
        except (KeyError, TypeError, ValueError):
            raise ValueError("no world of a clinic") from None
        diseases, findings, complaints = map(len, names)
        sizes = (diseases, findings), (diseases, complaints), (diseases,)
        if tuple(table.shape for table in tables) != sizes:
            raise ValueError("the sizes of a clinic's world disagree")
        signs, odds, rates = (table.tolist() for table in tables)
        return cls(names[0], names[1], _rows(signs), names[2], _rows(odds), tuple(rates))


def _names(value: Any) -> tuple[str, ...]:
    if not (isinstance(value, list) and all(isinstance(name, str) for name in value)):
        raise ValueError
    return tuple(value)


def _constant(table: tuple[tuple[float, ...], ...]) -> np.ndarray:
    array = np.array(table)
    array.setflags(write=False)
    return array


def _rows(table: list[list[float]]) -> tuple[tuple[float, ...], ...]:
    return tuple(map(tuple, table))


def draw_world(
    rng: np.random.Generator, *, diseases: int, complaints: int, complaint_odds: float, noise: float
) -> World:
    """Each disease has its sign; each complaint is likelier in a random half of the diseases.

    Args:
        rng: draws the halves.
        diseases: D, at most 16.
        complaints: C, at most 6.
        complaint_odds: how much likelier a complaint is in its half.
        noise: probability that a disease lacks its sign, and that it shows another's.
    """
    signs = np.where(np.eye(diseases, dtype=bool), 1 - noise, noise)
    likelier = [rng.permutation(diseases) < diseases // 2 for _ in range(complaints)]
    odds = np.where(np.array(likelier).T, complaint_odds, 1.0)
    skewed = 0.75 ** np.arange(diseases)
    return World(
        FINDINGS[:diseases],
        FINDINGS[:diseases],
        _rows(signs.tolist()),
        COMPLAINTS[:complaints],
        _rows(odds.tolist()),
        tuple((skewed / skewed.sum()).tolist()),
    )


@dataclass(frozen=True)
class Patient:
    """One drawn patient: option diseases, the complaint, the disease, and every finding."""

    options: tuple[int, ...]
    complaint: int
    disease: int
    present: tuple[bool, ...]


def draw_patient(
    world: World, rng: np.random.Generator, options: int, rates: np.ndarray
) -> Patient:
    """Draw options and complaint first, then the disease given both, then its findings."""
    chosen = rng.choice(len(world.diseases), options, replace=False)
    complaint = int(rng.integers(len(world.complaints)))
    weight = rates[chosen] * np.array(world.complaint_probability)[chosen, complaint]
    disease = int(rng.choice(chosen, p=weight / weight.sum()))
    present = rng.random(len(world.findings)) < world.table[disease]
    return Patient(tuple(map(int, chosen)), complaint, disease, tuple(map(bool, present)))


@dataclass(frozen=True)
class ClinicCase:
    """A patient as text.

    Attributes:
        initial: the sentence that opens the case.
        question: what is to be diagnosed.
        options: label -> disease, in the order in which they are shown.
        facts: what the patient can be asked about, a sentence each.
        answer: label of the disease.
    """

    initial: str
    question: str
    options: dict[str, str]
    facts: tuple[str, ...]
    answer: str


def write_case(
    world: World,
    patient: Patient,
    rng: np.random.Generator,
    recorded_facts: float = 1.0,
    wording: str = "plain",
) -> ClinicCase:
    """Write a patient as a case: the complaint opens it, the recorded findings are facts.

    Args:
        world: the clinic.
        patient: drawn from it.
        rng: draws which findings are recorded.
        recorded_facts: share of the findings that the facts record.
        wording: a name in `WORDINGS`.
    """
    count = len(world.findings)
    recorded = max(1, round(recorded_facts * count))
    kept = sorted(int(f) for f in rng.choice(count, recorded, replace=False))
    labels = LABELS[: len(patient.options)]
    return ClinicCase(
        initial=state_complaint(world.complaints[patient.complaint], wording),
        question=QUESTION,
        options={
            label: world.diseases[d] for label, d in zip(labels, patient.options, strict=True)
        },
        facts=tuple(state_finding(world.findings[f], patient.present[f], wording) for f in kept),
        answer=labels[patient.options.index(patient.disease)],
    )


def state_finding(finding: str, present: bool, wording: str = "plain") -> str:
    """The sentence that states a finding."""
    return f"{finding} spots {WORDINGS[wording][0 if present else 1]}."


def state_complaint(complaint: str, wording: str) -> str:
    """The sentence that opens a case."""
    return f"{complaint} {WORDINGS[wording][0]}."


def ask(finding: str) -> str:
    """The question about a finding."""
    return f"Any {finding} spots?"


def read_findings(world: World, text: str) -> dict[int, bool]:
    """Findings that a text states, in any wording: finding index -> present."""
    return {
        world.finding_numbers[name]: state in ("present", "reported")
        for name, state in _STATEMENT.findall(text)
        if name in world.finding_numbers
    }


def asked_findings(world: World, question: str) -> set[int]:
    """Findings that a question names, by index."""
    words = set(_WORD.findall(question))
    return {i for i, name in enumerate(world.findings) if name in words}
