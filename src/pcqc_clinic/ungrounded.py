"""A clinic patient that answers a known share of questions without grounds.

The clinic's patient almost always answers from the facts, so the grounding filter would have
nothing to filter. This one keeps which answers it changed, so that the filter can be judged.
"""

from collections.abc import Sequence

import numpy as np

from clinic_env.world import World, asked_findings, read_findings, state_finding
from pcqc.engines.base import Failure
from pcqc.roles import Patient
from pcqc.roles.patient import Inquiry

Changed = set[tuple[tuple[str, ...], str, str]]  # facts, question, answer


class UngroundedPatient:
    """Passes questions on, and changes a share of the answers in one of three ways.

    An answer then contradicts the facts, or adds a fact that was not asked for, or names a disease.

    Attributes:
        changed: facts, question and answer of every changed answer.
    """

    def __init__(self, patient: Patient, world: World, share: float, seed: int):
        self.patient, self.world, self.share, self.seed = patient, world, share, seed
        self.engine = patient.engine
        self.changed: Changed = set()

    def answer(self, inquiries: Sequence[Inquiry]) -> list[str | Failure]:
        """The patient's answers; each inquiry's random stream decides how its answer is changed."""
        answers = self.patient.answer(inquiries)
        return [
            answer if isinstance(answer, Failure) else self._maybe_changed(inquiry, answer)
            for inquiry, answer in zip(inquiries, answers, strict=True)
        ]

    def _maybe_changed(self, inquiry: Inquiry, answer: str) -> str:
        rng = np.random.default_rng([self.seed, inquiry.stream])
        if rng.random() >= self.share:
            return answer
        recorded = read_findings(self.world, " ".join(inquiry.facts))
        asked = asked_findings(self.world, inquiry.question)
        unasked = sorted(recorded.keys() - asked)
        way = rng.choice(["unsupported", "not confined", "not free"])
        if way == "not confined" and unasked:
            finding = int(rng.choice(unasked))
            changed = f"{answer} {self._state(finding, recorded[finding])}"
        elif way == "unsupported" and asked:
            finding = min(asked)
            changed = self._state(finding, not recorded.get(finding, False))
        else:
            changed = f"{answer} {rng.choice(self.world.diseases)}."
        self.changed.add((inquiry.facts, inquiry.question, changed))
        return changed

    def _state(self, finding: int, present: bool) -> str:
        return state_finding(self.world.findings[finding], present)
