"""GRPO (Shao et al. 2024); Terminal-only is GRPO with PCQC's smaller terminal group.

Samples: `terminal_group` (G_T) complete consultations of each case.
Credits: every actor token of a consultation with its group-relative advantage.
Trains on: all actor tokens, in one PPO epoch of one optimiser step, with a KL penalty.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from pcqc.cases.case import Case
from pcqc.consultation import RolloutContext, roll_out
from pcqc.methods.credit import terminal_advantages
from pcqc.methods.reward import correctness
from pcqc.methods.rollouts import RolloutBatch, answered_cases
from pcqc.methods.sequences import TERMINAL, executed_sequences
from pcqc.study import Method
from pcqc.training.policy import Policy, UpdateReport
from pcqc.training.sequences import KL, TrainingSequence
from pcqc.training.state import Part


@dataclass
class GroupBatch(RolloutBatch):
    """Groups of consultations, one group per case.

    Attributes:
        sequences: what the learner trains on.
    """

    sequences: list[TrainingSequence] = field(default_factory=list)


class Grpo:
    """See the module.

    Args:
        settings: group size, coefficients.
        policy: the actor in training.
        seed: of the run.

    Attributes:
        memory: plain data kept from update to update, saved and resumed with the run; here none.
    """

    def __init__(self, settings: Method, policy: Policy, seed: int):
        self.settings, self.policy, self.seed = settings, policy, seed
        self.memory: dict = {}

    @property
    def parts(self) -> dict[str, Part]:
        """What a resumed run needs, by name."""
        return {"actor": self.policy.state}

    @property
    def coefficients(self) -> dict[str, float]:
        """Weight of each term of the loss."""
        return {TERMINAL: 1.0, KL: self.settings.kl_coefficient}

    def collect_rollouts(
        self, context: RolloutContext, cases: Sequence[Case], update: int
    ) -> GroupBatch:
        """Sample an update's consultations and credit them.

        Args:
            context: roles and rules.
            cases: of the update.
            update: its number; part of every random stream's name.
        """
        batch = self.sample_groups(context, cases, update)
        for row, scores in zip(batch.consultations, batch.advantages, strict=True):
            for consultation, score in zip(row, scores, strict=True):
                batch.sequences += executed_sequences(consultation, score)
        return batch

    def sample_groups(
        self, context: RolloutContext, cases: Sequence[Case], update: int
    ) -> GroupBatch:
        """Consultations of each case with their rewards and group-relative advantages."""
        every = roll_out(
            context,
            cases,
            rollouts=self.settings.terminal_group,
            candidates=max(1, self.settings.question_group),
            seed=self.seed,
            stage=f"update/{update}",
        )
        kept = answered_cases(every)
        failures = {"failures/patient": len(cases) - len(kept)}
        cases, consultations = [cases[i] for i in kept], [every[i] for i in kept]
        rewards = [
            np.array([correctness(case, consultation) for consultation in row])
            for case, row in zip(cases, consultations, strict=True)
        ]
        advantages = [terminal_advantages(row) for row in rewards]
        turns = [turn for row in consultations for one in row for turn in one.turns]
        sampled = sum(len(r.completion.tokens) for turn in turns for r in turn.responses)
        return GroupBatch(cases, consultations, rewards, advantages, sampled, failures)

    def learn(self, update: int, batch: GroupBatch) -> UpdateReport:
        """Take the optimiser step of an update."""
        return self.policy.update(batch.sequences, self.coefficients)
