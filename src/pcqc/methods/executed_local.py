"""Executed-local, a control of PCQC (app:executed_local_credit).

Samples: as PCQC.
Credits: executed questions by the same gain, compared across all cases and states of an update.
Trains on: as PCQC, of questions the executed ones alone.
"""

from collections.abc import Sequence
from typing import Literal

from pydantic.dataclasses import dataclass as settings

from pcqc.methods.pcqc import Pcqc
from pcqc.methods.question_groups import QuestionGroup
from pcqc_base.settings.types import STRICT
from turn_credit.arithmetic import executed_local_credit


@settings(frozen=True, config=STRICT)
class ExecutedLocal(Pcqc):
    """Executed-local's settings and its credit; it samples and trains as PCQC."""

    supervise: Literal["executed"] = "executed"
    divide: Literal["update"] = "update"

    def credit(self, groups: Sequence[QuestionGroup]) -> None:
        """Credit executed questions in place, compared across all states of the update."""
        gains = [group.gains[0] for group in groups]
        credits = executed_local_credit(gains, self.least_spread)
        for group, credit in zip(groups, credits, strict=True):
            group.credits[0] = credit
