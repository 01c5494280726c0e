"""What a world is: its diseases, what can be asked about, and how often each finding is present.

A patient has one of the case's options, and is of a kind that nobody tells. Given both, the answers
are independent, so posterior and Q* are exact (`values.py`). The four worlds are frozen: `load`
checks the SHA-256 of the file that it reads.
"""

import hashlib
import json
from dataclasses import dataclass
from importlib.resources import files

import numpy as np

# Name -> SHA-256 of its file in clinic_env/worlds/.
DIGESTS = {
    "clinic-v2-budget": "2a0930d30b9dfc98619b1f3963092ef3e9ea648cf1ca9d3a399fa195d7c401d4",
    "clinic-v2-costs": "aa39a9718135e1695362f40b381bac225d7ae3c73166e7b08497ebff959863d3",
    "clinic-v2-together": "062e9a9e64f6950a787b1a925bcf01c23987375df7acc9e58c623350ae3b702e",
    "clinic-v2-lies": "6f8a8e1fa72a0a2514e6eba377d2fad6f7551f05b2e22b383a22e6f8894a83a9",
}
NAMES = tuple(DIGESTS)


@dataclass(frozen=True, eq=False)
class World:
    """D diseases, F findings, C complaints, H kinds of patients.

    Attributes:
        name: such as `clinic-v2-lies`.
        turns: how many a consultation has; a question of the last is not answered.
        options: K, number of diseases that a case may be.
        diseases: D names.
        rates: float [D], base rates of the diseases.
        complaints: C names of what a case can open with.
        odds: float [C, D], how much likelier a complaint makes a disease.
        kinds: float [H], share of each kind of patients, whatever the disease.
        findings: F names of what can be asked about.
        present: float [F, H, D], P(finding is present | kind, disease).
        prices: float [F], what a question costs, in units of the reward.
        lies: probability that an answer is false.
        fresh: whether a finding that is asked about again is looked at anew; otherwise the patient
            repeats the first answer.
    """

    name: str
    turns: int
    options: int
    diseases: tuple[str, ...]
    rates: np.ndarray
    complaints: tuple[str, ...]
    odds: np.ndarray
    kinds: np.ndarray
    findings: tuple[str, ...]
    present: np.ndarray
    prices: np.ndarray
    lies: float
    fresh: bool

    @property
    def questions(self) -> int:
        """How many questions can be answered in a consultation."""
        return self.turns - 1

    @property
    def answered_present(self) -> np.ndarray:
        """float [F, H, D], P(the patient answers "present" | kind, disease)."""
        return self.present * (1 - self.lies) + (1 - self.present) * self.lies

    def prior(self, options: np.ndarray, complaint: int) -> np.ndarray:
        """float [D, H], P(disease, kind | options, complaint); 0 for what is no option.

        Args:
            options: numbers of the case's diseases, in any order.
            complaint: number of what the case opens with.
        """
        weight = np.zeros(len(self.diseases))
        weight[options] = (self.rates * self.odds[complaint])[options]
        return weight[:, None] / weight.sum() * self.kinds


def load(name: str = NAMES[0]) -> World:
    """A frozen world.

    Raises:
        ValueError: there is no world of that name, or its file was changed.
    """
    if name not in DIGESTS:
        raise ValueError(f"no world is called '{name}'; there are {', '.join(NAMES)}")
    content = files("clinic_env").joinpath(f"worlds/{name}.json").read_bytes()
    if hashlib.sha256(content).hexdigest() != DIGESTS[name]:
        raise ValueError(f"worlds/{name}.json is not the frozen world; install clinic-env again")
    return world_of(json.loads(content))


def world_of(value: dict) -> World:
    """The world that a file of clinic_env/worlds/ states."""
    rates = np.array(list(value["diseases"].values()), np.float64)
    findings = value["findings"]
    return World(
        name=value["name"],
        turns=value["turns"],
        options=value["options"],
        diseases=tuple(value["diseases"]),
        rates=rates / rates.sum(),
        complaints=tuple(value["complaints"]),
        odds=np.array(list(value["complaints"].values()), np.float64),
        kinds=np.array(value["kinds"], np.float64),
        findings=tuple(findings),
        present=np.array([row["present"] for row in findings.values()], np.float64),
        prices=np.array([row["price"] for row in findings.values()], np.float64),
        lies=value["lies"],
        fresh=value["fresh"],
    )
