"""The synthetic clinic: diseases, their signs, and how a case is drawn from them.

Every disease has a sign of its own, a finding that hardly any other disease shows, so each question
can confirm or rule out one option. A case opens with a complaint, which makes some options likelier
than others and which nobody can ask about. Given the disease the findings are independent, so the
posterior is exact (`posterior.py`).
"""

import re
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from pydantic import TypeAdapter

from pcqc.cases.case import Case
from pcqc.errors import UserError
from pcqc.study import Benchmark, Clinic
from pcqc.system.files import read_json, write_json
from pcqc.system.seeds import generator

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

    @property
    def table(self) -> np.ndarray:
        """P(finding | disease) as a D x F array."""
        return np.array(self.probability)

    def complaint_likelihood(self, case: Case) -> np.ndarray:
        """P(the case's complaint | disease) of the D diseases, up to a factor."""
        (name,) = {word for word in re.findall(r"\w+", case.initial) if word in self.complaints}
        return np.array(self.complaint_probability)[:, self.complaints.index(name)]

    def rates(self, kind: str) -> np.ndarray:
        """Base rates of the D diseases, `uniform` or `skewed`."""
        uniform = np.full(len(self.diseases), 1 / len(self.diseases))
        return uniform if kind == "uniform" else np.array(self.skewed_rates)

    def save(self, path: Path) -> None:
        write_json(path, asdict(self))

    @classmethod
    def load(cls, path: Path) -> "World":
        """Read a world; UserError where the file holds none."""
        try:
            world = TypeAdapter(cls).validate_python(read_json(path))
            diseases, complaints = len(world.diseases), np.shape(world.complaint_probability)
            if world.table.shape != (diseases, len(world.findings)) or (
                complaints != (diseases, len(world.complaints))
                or len(world.skewed_rates) != diseases
            ):
                raise ValueError
        except ValueError:
            raise UserError(
                f"{path}: not a clinic's world; remove it, then rerun `make results`"
            ) from None
        return world


def make_world(settings: Clinic) -> World:
    """Each disease has its sign; each complaint is likelier in a random half of the diseases."""
    rng = generator(settings.seed, "world")
    count = settings.diseases
    signs = np.where(np.eye(count, dtype=bool), 1 - settings.noise, settings.noise)
    likelier = [rng.permutation(count) < count // 2 for _ in range(settings.complaints)]
    complaints = np.where(np.array(likelier).T, settings.complaint_odds, 1.0)
    skewed = 0.75 ** np.arange(count)
    return World(
        FINDINGS[:count],
        FINDINGS[:count],
        tuple(tuple(map(float, row)) for row in signs),
        COMPLAINTS[: settings.complaints],
        tuple(tuple(map(float, row)) for row in complaints),
        tuple(map(float, skewed / skewed.sum())),
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
        world.findings.index(name): state in ("present", "reported")
        for name, state in _STATEMENT.findall(text)
        if name in world.findings
    }


def asked_findings(world: World, question: str) -> set[int]:
    """Findings that a question names, by index."""
    words = set(re.findall(r"\w+", question))
    return {i for i, name in enumerate(world.findings) if name in words}


def as_case(world: World, patient: Patient, case_id: str, benchmark: Benchmark, rng) -> Case:
    """Write a patient as a case: the complaint opens it, the recorded findings are facts."""
    count = len(world.findings)
    recorded = max(1, round(benchmark.recorded_facts * count))
    kept = sorted(int(f) for f in rng.choice(count, recorded, replace=False))
    facts = tuple(
        state_finding(world.findings[f], patient.present[f], benchmark.wording) for f in kept
    )
    labels = LABELS[: len(patient.options)]
    return Case(
        case_id=case_id,
        source="clinic",
        initial=state_complaint(world.complaints[patient.complaint], benchmark.wording),
        question=QUESTION,
        options={
            label: world.diseases[d] for label, d in zip(labels, patient.options, strict=True)
        },
        facts=facts,
        answer=labels[patient.options.index(patient.disease)],
        origin={"file": "synthetic", "row": int(case_id.rsplit("-", 1)[1])},
    )
