"""Studies drawn from a known model: right or wrong by case, method, base model, run and chance.

The log-odds of a right diagnosis are a level of method and base model, plus normal effects of the
case (common to all), of method and base model on the case, and of the run. The standard deviations
stand in log-odds and give the paper's tables: 33 % of cases discordant between two methods at 60
and 55 % accuracy, and runs whose true accuracies deviate by 1.2 points, which with the noise of
1,268 cases shows as the 1.6 of PCQC's runs on MedQA.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from analysis.statistics.intervals import Sample

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(80)


@dataclass(frozen=True)
class Model:
    """What studies are drawn from.

    Attributes:
        levels: log-odds of both methods, one per base model.
        cases: of each benchmark.
        runs: of each method, under each base model; letters from A on.
        run_sd: of the first method's runs; 0.08 is 1.2 points of accuracy.
        ratio: how many times as far apart the second method's runs lie.
        alike: correlation of both methods' runs of one letter.
    """

    levels: tuple[tuple[float, ...], tuple[float, ...]]
    cases: tuple[int, ...]
    runs: tuple[int, int]
    run_sd: float = 0.08
    ratio: float = 1.0
    alike: float = 0.0
    case_sd: float = 1.8
    own_case_sd: float = 0.5

    @property
    def truth(self) -> float:
        """The difference of expected accuracies, mean over base models, in points."""
        sd = np.sqrt(np.square(self._run_sds) + self.case_sd**2 + self.own_case_sd**2)
        odds = np.array(self.levels)[..., None] + sd[:, None, None] * NODES
        shares = expit(odds) @ WEIGHTS / WEIGHTS.sum()
        return 100 * float((shares[0] - shares[1]).mean())

    @property
    def _run_sds(self) -> tuple[float, float]:
        return self.run_sd, self.ratio * self.run_sd

    def draw(self, rng: np.random.Generator) -> tuple[Sample, Sample]:
        """One study: outcomes of both methods, 0 or 100."""
        bases = len(self.levels[0])
        effects = self._run_effects(rng, bases)
        outcomes: tuple[list, list] = ([], [])
        for cases in self.cases:
            case = self.case_sd * rng.normal(size=cases)
            for method, runs in enumerate(self.runs):
                own = self.own_case_sd * rng.normal(size=(bases, 1, cases))
                level = np.array(self.levels[method])[:, None, None]
                odds = level + case + own + effects[method][:, :runs, None]
                right = rng.random((bases, runs, cases)) < expit(odds)
                outcomes[method].append(100.0 * right.reshape(-1, cases))
        return tuple(
            Sample(
                tuple(of_method),
                tuple("ABCDEFGH"[:runs]) * bases,
                tuple(f"base {b}" for b in range(bases) for _ in range(runs)),
            )
            for of_method, runs in zip(outcomes, self.runs, strict=True)
        )

    def _run_effects(self, rng: np.random.Generator, bases: int) -> list[np.ndarray]:
        shape = (bases, max(self.runs))
        common = rng.normal(size=shape)
        return [
            sd * (self.alike**0.5 * common + (1 - self.alike) ** 0.5 * rng.normal(size=shape))
            for sd in self._run_sds
        ]


def coverage(model: Model, studies: int, effect, seed: int = 0) -> float:
    """Percent of drawn studies whose interval, by `effect`, holds the truth."""
    rng = np.random.default_rng(seed)
    truth = model.truth
    effects = (effect(*model.draw(rng)) for _ in range(studies))
    return 100 * float(np.mean([each.low <= truth <= each.high for each in effects]))
