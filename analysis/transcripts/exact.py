"""What questions are worth in the clinic, where it is known exactly.

A question's value at a state is the accuracy that the Bayes diagnosis has after it, expected over
the patient's answers. The patient is taken to know every finding, recorded or not.
"""

import functools
from typing import Any

import numpy as np

from clinic_env.posterior import SAME, Values, evidence, posterior
from clinic_env.world import World, ask, asked_findings
from pcqc.cases.case import Case


class ExactValues:
    """Values at the states of one benchmark's consultations.

    Args:
        world: the clinic.
        rates: base rates of its D diseases in this benchmark.
    """

    def __init__(self, world: World, rates: np.ndarray):
        self.world, self.rates = world, rates
        self._values = Values(world, rates)
        # Doctors come to the same states again and again, to the first one always.
        self._states: dict[tuple, tuple[dict[str, Any], dict[int, float]]] = {}
        self._asked = functools.cache(functools.partial(asked_findings, world))

    def state(self, case: Case, turns: list[dict]) -> dict[str, Any]:
        """A state after some turns of a dialogue.

        Returns:
            `right`, the probability of the correct option; `now`, the accuracy of the Bayes
            diagnosis; `best`, its accuracy after the best question; `ask`, the best questions.
        """
        return {**self._known(case, turns)[0]}

    def value(self, case: Case, turns: list[dict], question: str | None) -> float | None:
        """Value of a question after some turns; None if it names no finding, or several."""
        findings = self._asked(question or "")
        if len(findings) != 1:
            return None
        (finding,) = findings
        return round(self._known(case, turns)[1][finding], 4)

    def _known(self, case: Case, turns: list[dict]) -> tuple[dict[str, Any], dict[int, float]]:
        """What `state` returns, and the value of each finding; computed once."""
        key = (case.case_id, *(turn["answer"] for turn in turns))
        if key not in self._states:
            answered = evidence(self.world, {"turns": turns})
            probability = posterior(self.world, case, answered, self.rates)
            values = self._values(case, answered, (), 1)
            best, now = max(values.values()), float(probability.max())
            names = [ask(self.world.findings[f]) for f, v in values.items() if v > best - SAME]
            state = {
                "right": round(float(probability[list(case.options).index(case.answer)]), 4),
                "now": round(now, 4),
                "best": round(best, 4),
                "ask": names if best > now + SAME else [],
            }
            self._states[key] = state, values
        return self._states[key]
