"""GRPO (Shao et al. 2024); Terminal-only is GRPO with PCQC's smaller terminal group.

Samples: `terminal_group` (G_T) complete consultations of each case.
Credits: every actor token of a consultation with its group-relative advantage.
Trains on: all actor tokens, in one PPO epoch of one optimiser step, with a KL penalty.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from pydantic.dataclasses import dataclass as settings

from pcqc.cases.case import Case
from pcqc.consultation import RolloutContext, roll_out
from pcqc.methods.base import RlMethod, Services
from pcqc.methods.reward import outcome_reward
from pcqc.methods.rollouts import RolloutBatch, answered_cases
from pcqc.methods.sequences import TERMINAL, executed_sequences
from pcqc.training.training_sequence import KL, TrainingSequence
from pcqc_base.settings.types import STRICT, Count
from turn_credit.arithmetic import terminal_advantages

if TYPE_CHECKING:
    from pcqc.training.policy import UpdateReport


@dataclass
class GroupBatch(RolloutBatch):
    """Groups of consultations, one group per case.

    Attributes:
        sequences: what the learner trains on.
    """

    sequences: list[TrainingSequence] = field(default_factory=list)


@settings(frozen=True, config=STRICT)
class Grpo(RlMethod):
    """GRPO's settings and updates."""

    terminal_group: Count = 4  # G_T, complete consultations per case

    records: ClassVar[tuple[str, ...]] = ("candidate_groups",)  # empty without candidates

    @property
    def coefficients(self) -> dict[str, float]:
        """Weight of each term of the loss."""
        return {TERMINAL: 1.0, KL: self.kl_coefficient}

    def advantages(self, rewards: np.ndarray) -> np.ndarray:
        """Advantage of each consultation of a case, float [G_T], from their rewards."""
        return terminal_advantages(rewards)

    def collect_rollouts(
        self, services: Services, context: RolloutContext, cases: Sequence[Case], update: int
    ) -> GroupBatch:
        """Sample groups of consultations, and credit each with its group-relative advantage."""
        batch = self.sample_groups(services, context, cases, update)
        for row, scores in zip(batch.consultations, batch.advantages, strict=True):
            for consultation, score in zip(row, scores, strict=True):
                batch.sequences += executed_sequences(consultation, score)
        return batch

    def sample_groups(
        self,
        services: Services,
        context: RolloutContext,
        cases: Sequence[Case],
        update: int,
        candidates: int = 1,
    ) -> GroupBatch:
        """Consultations of each case with their rewards and group-relative advantages.

        Args:
            services, context, cases, update: as of `collect_rollouts`.
            candidates: responses to sample at each state of a case's first consultation.
        """
        every = roll_out(
            context,
            cases,
            rollouts=self.terminal_group,
            candidates=candidates,
            seed=services.seed,
            stage=f"update/{update}",
        )
        kept = answered_cases(every)
        failures = {"failures/patient": len(cases) - len(kept)}
        cases, consultations = [cases[i] for i in kept], [every[i] for i in kept]
        rewards = [
            np.array([outcome_reward(case, consultation) for consultation in row])
            for case, row in zip(cases, consultations, strict=True)
        ]
        advantages = [self.advantages(row) for row in rewards]
        turns = [turn for row in consultations for c in row for turn in c.turns]
        sampled = sum(len(r.completion.tokens) for turn in turns for r in turn.responses)
        return GroupBatch(cases, consultations, rewards, advantages, sampled, failures)

    def learn(self, services: Services, update: int, batch: GroupBatch) -> "UpdateReport":
        """Take the optimiser step of an update."""
        return services.policy.update(batch.sequences, self.coefficients)
