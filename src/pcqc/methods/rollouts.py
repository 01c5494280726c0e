"""One update's rollouts, whatever the method, and which cases may be learned from."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from pcqc.cases.case import Case
from pcqc.consultation import Consultation
from pcqc.logged.rollouts import rollout_metrics
from pcqc_base.errors import UserError


@dataclass
class RolloutBatch:
    """Complete consultations of an update, rewarded.

    Attributes:
        cases: the update's, less those in which a served patient failed.
        consultations: complete ones of each case.
        rewards: per case, float [its consultations].
        advantages: per case, float [its consultations]: of the whole consultation.
        sampled_tokens: tokens of all the actor's responses, in these consultations or not.
        failures: metric name -> count of what a server did not answer.
        continued: further consultations that were played to their end to value states.
    """

    cases: list[Case]
    consultations: list[list[Consultation]]
    rewards: list[np.ndarray]
    advantages: list[np.ndarray]
    sampled_tokens: int
    failures: dict[str, int]
    continued: int = field(default=0, kw_only=True)

    @property
    def completed(self) -> int:
        """Number of complete consultations, those that only value states among them."""
        return sum(map(len, self.consultations)) + self.continued

    def metrics(self) -> dict[str, float]:
        """Metric name -> value; `docs/read-a-run.md` explains each."""
        return rollout_metrics(self)

    def records(self) -> dict[str, list[dict]]:
        """Name of a record that the method declares (`Method.records`) -> its new rows."""
        return {}


def answered_cases(consultations: Sequence[Sequence[Consultation]]) -> list[int]:
    """Indices of the cases that may be learned from: the patient failed in no consultation.

    Groups and trees stay whole: a case is left out with all its consultations.

    Raises:
        UserError: there is no such case, or none of them reached its first turn.
    """
    kept = [
        i
        for i, row in enumerate(consultations)
        if not any(consultation.ending == "patient_failed" for consultation in row)
    ]
    if not kept:
        turns = [turn for row in consultations for c in row for turn in c.turns]
        failure = next(r.failure for turn in turns for r in turn.responses if r.failure)
        raise UserError(
            f"the patient's server failed in every case ({failure}); check the server and rerun"
        )
    if not any(consultation.turns for i in kept for consultation in consultations[i]):
        raise UserError(
            "an update has nothing to learn from: every case is longer than "
            "protocol.prompt_tokens; raise that setting"
        )
    return kept
