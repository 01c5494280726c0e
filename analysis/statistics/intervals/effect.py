"""A difference of two methods with its error: interval, p, and what could be detected."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from scipy.stats import t

from pcqc_study.intervals_over_cases import ALIKE, CONFIDENCE, Interval, exact_interval

MOST_RUNS = 50  # that `Effect.runs_to_decide` looks at
POWER = 0.8  # of the smallest effect that a comparison could detect


@dataclass(frozen=True)
class Effect:
    """A difference of means with its standard error.

    Attributes:
        difference: minuend minus subtrahend, in the unit of the metric.
        standard_error: over what `random` names.
        freedom: degrees of freedom of the standard error.
        random: what another study would draw anew: `case`, `run`, or `case and run`.
        by_base: base model -> effect there, of several; the difference is their mean.
        runs: how many each method has under a base model; 0 where runs are not random.
        over_cases: the part of the variance that more runs would not lower.
        outcomes: how many independent ones there are, for where they are all alike.
        reach: how far a difference can lie from zero.
    """

    difference: float
    standard_error: float
    freedom: float
    random: str = "case"
    by_base: Mapping[str, "Effect"] = field(default_factory=dict)
    runs: int = 0
    over_cases: float = 0.0
    outcomes: int = 0
    reach: float = np.inf

    @property
    def constant(self) -> bool:
        """Whether nothing varied, so that the error is not known from the outcomes' variance."""
        return self.standard_error <= ALIKE

    @property
    def _exact(self) -> Interval:
        return exact_interval(self.difference, self.outcomes, -self.reach, self.reach)

    @property
    def low(self) -> float:
        """Lower end of the 95 % interval."""
        if self.constant:
            return self._exact.low
        return self.difference - self._quantile(0.5 + CONFIDENCE / 2) * self.standard_error

    @property
    def high(self) -> float:
        """Upper end of the 95 % interval."""
        if self.constant:
            return self._exact.high
        return self.difference + self._quantile(0.5 + CONFIDENCE / 2) * self.standard_error

    @property
    def detectable(self) -> float:
        """Smallest true difference that a 5 % two-sided test finds four times in five.

        Infinite where nothing varied: then it is not known.
        """
        if self.constant:
            return np.inf
        quantiles = self._quantile(0.5 + CONFIDENCE / 2) + self._quantile(POWER)
        return quantiles * self.standard_error

    @property
    def runs_to_decide(self) -> int | None:
        """Runs of each method that a 5 % test needs to find this difference four times in five.

        None where `MOST_RUNS` do not suffice: then only more cases, or a larger difference, would;
        and where nothing varied.
        """
        if self.constant:
            return None
        of_one_run = (self.standard_error**2 - self.over_cases) * self.runs
        for runs in range(self.runs + 1, MOST_RUNS + 1):
            freedom = 2 * (runs - 1)
            quantiles = t.ppf(0.5 + CONFIDENCE / 2, freedom) + t.ppf(POWER, freedom)
            error = (self.over_cases + of_one_run / runs) ** 0.5
            if quantiles * error <= abs(self.difference):
                return runs
        return None

    @property
    def p(self) -> float:
        """Two-sided p of no difference."""
        if self.constant:
            return min(1.0, 2 * self._all_alike(0.0))
        return min(1.0, 2 * self._above(abs(self.difference)))

    @property
    def on_each(self) -> list["Effect"]:
        """The effects on each base model; of one alone, this one."""
        return [*self.by_base.values()] or [self]

    def p_beyond(self, margin: float) -> float:
        """P of a difference of at least `margin`, either way: two one-sided tests."""
        if self.constant:
            return self._all_alike(margin) if abs(self.difference) < margin else 1.0
        return self._above(margin - abs(self.difference))

    def _all_alike(self, mean: float) -> float:
        """Greatest chance of outcomes all like these where the mean is another; nearer to these.

        The least share of other outcomes brings the mean there if they lie at the range's end.
        """
        here = abs(self.difference)
        room = self.reach + (here if mean < here else -here)
        share = abs(mean - here) / room if room else 1.0
        return float(max(0.0, 1 - share) ** self.outcomes)

    def _quantile(self, share: float) -> float:
        return float(t.ppf(share, self.freedom))

    def _above(self, distance: float) -> float:
        """One-sided p of a distance from the hypothesis."""
        return float(t.sf(distance / self.standard_error, self.freedom))
