"""Newer peers that credit turns by a process reward beside the outcome (docs/credits.md).

Samples: GRPO's consultations.
Credits: every turn by the function of the package `turn_credit` that the setting names.
Trains on: GRPO's tokens, each with the credit of its turn.
"""

from dataclasses import field
from typing import Any, ClassVar, Literal

from pydantic.dataclasses import dataclass as settings

from pcqc.consultation import RolloutContext
from pcqc.methods.base import Services
from pcqc_base.settings.types import STRICT
from pcqc_peers.turn_credit import TurnBatch, TurnCredit
from turn_credit.turns_process import ProcessGroup, critiques_of


@settings(frozen=True, config=STRICT)
class TurnProcess(TurnCredit):
    """Settings of credits of turns by a process reward, and what these read."""

    # AReW by the direction in which a turn moved it.
    OF_BELIEFS: ClassVar[tuple[str, ...]] = ("a2tgpo", "arew")
    GROUP = ProcessGroup

    # Names of its own, none of `TurnCredit`'s.
    turn_credit: Literal["a2tgpo", "arew", "infopo"] = field(kw_only=True)  # type: ignore[assignment]

    def read(
        self, services: Services, context: RolloutContext, batch: TurnBatch, stage: str
    ) -> dict[str, Any]:
        """Fields of `ProcessGroup` that the credit needs, read from the consultations."""
        read = super().read(services, context, batch, stage)
        consultations = [c for _, c in batch.played]
        read["tokens"] = [
            [len(t.executed.completion.tokens) for t in c.turns] for c in consultations
        ]
        if self.turn_credit == "arew":
            read["critiques"] = critiques_of(read["beliefs"])
        if self.turn_credit == "infopo":
            from pcqc_peers.answer_shifts import answer_shifts  # loads torch

            with context.timed("rollout"):
                read["shifts"] = answer_shifts(services.policy, context, consultations)
        return read
