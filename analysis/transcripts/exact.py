"""What questions are worth in the clinic, where it is known exactly.

A question's value at a state is the accuracy that the Bayes diagnosis has after it, expected over
the patient's answers. The patient is taken to know every finding, recorded or not.
"""

from typing import Any

import numpy as np

from pcqc.cases import Case
from pcqc.clinic.posterior import evidence, posterior, question_values
from pcqc.clinic.world import World, ask, asked_findings

SAME = 1e-9  # values this close are equal


class ExactValues:
    """Values at the states of one benchmark's consultations.

    Args:
        world: the clinic.
        rates: base rates of its D diseases in this benchmark.
    """

    def __init__(self, world: World, rates: np.ndarray):
        self.world, self.rates = world, rates
        self._known: dict[tuple, tuple[dict[str, float], dict[int, float]]] = {}

    def state(self, case: Case, turns: list[dict]) -> dict[str, Any]:
        """A state after some turns of a dialogue.

        Returns:
            `right`, the probability of the correct option; `now`, the accuracy of the Bayes
            diagnosis; `best`, its accuracy after the best question; `ask`, the best questions.
        """
        probability, values = self._at(case, turns)
        best, now = max(values.values()), max(probability.values())
        names = [ask(self.world.findings[f]) for f, v in values.items() if v > best - SAME]
        return {
            "right": round(probability[case.options[case.answer]], 4),
            "now": round(now, 4),
            "best": round(best, 4),
            "ask": names if best > now + SAME else [],
        }

    def value(self, case: Case, turns: list[dict], question: str | None) -> float | None:
        """Value of a question after some turns; None if it names no finding, or several."""
        found = asked_findings(self.world, question or "")
        if len(found) != 1:
            return None
        return round(self._at(case, turns)[1][found.pop()], 4)

    def _at(self, case: Case, turns: list[dict]) -> tuple[dict[str, float], dict[int, float]]:
        """Probability of each option's disease, and the value of asking about each finding."""
        answered = evidence(self.world, {"turns": turns})
        # Neither the order of the options nor the facts change it.
        key = (case.initial, frozenset(case.options.values()), frozenset(answered.items()))
        if key not in self._known:
            probability = posterior(self.world, case, answered, self.rates)
            by_name = dict(zip(case.options.values(), map(float, probability), strict=True))
            values = question_values(self.world, case, answered, rates=self.rates)
            self._known[key] = by_name, values
        return self._known[key]
