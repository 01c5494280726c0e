"""The synthetic clinic: diseases, findings, and how a case is drawn from them.

A disease has a profile of typical findings; a patient shows each finding with the probability of
the profile. A case offers some diseases as options and starts from one complaint (a finding that
the patient has, typical of at least two options). Given options and complaint the findings are
independent given the disease, so that the posterior is exact (`posterior.py`).
"""

import itertools
import re
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from pydantic import TypeAdapter

from pcqc.cases import Case
from pcqc.config import Benchmark, Clinic
from pcqc.errors import UserError
from pcqc.files import read_json, write_json
from pcqc.seeds import generator

DISEASES = (
    "amberitis", "bluepox", "coralgia", "duskfever", "emberosis", "frostlung", "glimmeria",
    "harrowgut", "ironblight", "juniperitis", "kelposis", "lunargia",
)  # fmt: skip
FINDINGS = (
    "fever", "cough", "rash", "headache", "nausea", "fatigue", "dizziness", "itching", "chills",
    "swelling", "thirst", "cramps", "sweating", "wheezing", "numbness", "tremor",
)  # fmt: skip
QUESTION = "Which diagnosis is most likely?"
LABELS = "ABCDEFGHIJKL"
# How the facts state a finding, by wording: present, absent.
WORDINGS = {
    "plain": ("{} present.", "{} absent."),
    "reported": ("{} reported.", "{} denied."),
}
_STATEMENT = re.compile(r"\b(\w+) (present|reported|absent|denied)\b")


@dataclass(frozen=True)
class World:
    """Diseases x findings.

    Attributes:
        diseases: D names.
        findings: F names.
        probability: D x F, P(finding | disease).
        skewed_rates: D base rates of the independent source.
    """

    diseases: tuple[str, ...]
    findings: tuple[str, ...]
    probability: tuple[tuple[float, ...], ...]
    skewed_rates: tuple[float, ...]

    @property
    def table(self) -> np.ndarray:
        """P(finding | disease) as a D x F array."""
        return np.array(self.probability)

    def rates(self, kind: str) -> np.ndarray:
        """Base rates of the D diseases, `uniform` or `skewed`."""
        uniform = np.full(len(self.diseases), 1 / len(self.diseases))
        return uniform if kind == "uniform" else np.array(self.skewed_rates)

    def save(self, path: Path) -> None:
        write_json(path, asdict(self))

    @classmethod
    def load(cls, path: Path) -> "World":
        """Read a world. Raises UserError for a file that is none."""
        try:
            world = TypeAdapter(cls).validate_python(read_json(path))
            shape = len(world.diseases), len(world.findings)
            if world.table.shape != shape or len(world.skewed_rates) != shape[0]:
                raise ValueError
        except ValueError:
            raise UserError(
                f"{path}: not a clinic's world; remove it, then rerun `make results`"
            ) from None
        return world


def make_world(settings: Clinic) -> World:
    """Draw 300 sets of profiles; keep the one whose most similar diseases differ most."""
    rng = generator(settings.seed, "world")
    drawn = [_draw_profiles(rng, settings) for _ in range(300)]
    typical = max(drawn, key=_separation)
    probability = np.where(typical, 1 - settings.noise, settings.noise)
    skewed = 0.75 ** np.arange(settings.diseases)
    return World(
        DISEASES[: settings.diseases],
        FINDINGS[: settings.findings],
        tuple(tuple(float(p) for p in row) for row in probability),
        tuple(float(r) for r in skewed / skewed.sum()),
    )


def _draw_profiles(rng: np.random.Generator, settings: Clinic) -> np.ndarray:
    typical = np.zeros((settings.diseases, settings.findings), bool)
    for row in typical:
        row[rng.choice(settings.findings, settings.typical, replace=False)] = True
    return typical


def _separation(typical: np.ndarray) -> tuple[int, int, int]:
    """Smallest distance of two profiles, then the use of the least and the most used finding."""
    pairs = itertools.combinations(typical, 2)
    distance = min(int((a != b).sum()) for a, b in pairs)
    use = typical.sum(0)
    return distance, int(use.min()), -int(use.max())


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
    table, typical = world.table, world.table > 0.5
    while True:
        chosen = rng.choice(len(world.diseases), options, replace=False)
        complaint = int(rng.integers(len(world.findings)))
        if typical[chosen, complaint].sum() >= 2:
            break
    weight = rates[chosen] * table[chosen, complaint]
    disease = int(rng.choice(chosen, p=weight / weight.sum()))
    present = rng.random(len(world.findings)) < table[disease]
    present[complaint] = True
    return Patient(tuple(map(int, chosen)), complaint, disease, tuple(map(bool, present)))


def state_finding(finding: str, present: bool, wording: str = "plain") -> str:
    """The sentence that states a finding."""
    return WORDINGS[wording][0 if present else 1].format(finding)


def ask(finding: str) -> str:
    """The question about a finding."""
    return f"Any {finding}?"


def read_findings(world: World, text: str) -> dict[int, bool]:
    """Findings that a text states, in any wording: finding index -> present."""
    return {
        world.findings.index(name): said in ("present", "reported")
        for name, said in _STATEMENT.findall(text)
        if name in world.findings
    }


def asked_findings(world: World, question: str) -> set[int]:
    """Findings that a question names, by index."""
    words = set(re.findall(r"\w+", question))
    return {i for i, name in enumerate(world.findings) if name in words}


def as_case(world: World, patient: Patient, case_id: str, benchmark: Benchmark, rng) -> Case:
    """Write a patient as a case: the complaint opens it, the other recorded findings are facts."""
    others = [f for f in range(len(world.findings)) if f != patient.complaint]
    recorded = max(1, round(benchmark.recorded_facts * len(others)))
    kept = sorted(int(f) for f in rng.choice(others, recorded, replace=False))
    facts = tuple(
        state_finding(world.findings[f], patient.present[f], benchmark.wording) for f in kept
    )
    labels = LABELS[: len(patient.options)]
    return Case(
        case_id=case_id,
        source="clinic",
        initial=state_finding(world.findings[patient.complaint], True, benchmark.wording),
        question=QUESTION,
        options={
            label: world.diseases[d] for label, d in zip(labels, patient.options, strict=True)
        },
        facts=facts,
        answer=labels[patient.options.index(patient.disease)],
        origin={"file": "synthetic", "row": int(case_id.rsplit("-", 1)[1])},
    )
