"""Peers that credit the turns of GRPO's consultations one by one (docs/credits.md).

Samples: GRPO's consultations; VinePPO also `continuations` that go on from each state.
Credits: every turn by the function of the package `turn_credit` that the setting names.
Trains on: GRPO's tokens, each with the credit of its turn.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic.dataclasses import dataclass as settings

from pcqc.cases.case import Case
from pcqc.consultation import Consultation, RolloutContext
from pcqc.methods.base import Services
from pcqc.methods.grpo import GroupBatch, Grpo
from pcqc.methods.sequences import executed_sequences
from pcqc_base.settings.types import STRICT, Whole
from pcqc_peers.beliefs import actor_beliefs, scorer_beliefs
from pcqc_peers.continuations import before_turns, continue_all
from turn_credit.group import Group, Ragged
from turn_credit.registry import credit_update
from turn_credit.turns import share_alone

Played = Sequence[tuple[Case, Consultation]]


@dataclass
class TurnBatch(GroupBatch):
    """Groups of consultations, credited turn by turn.

    Attributes:
        credits: per case and consultation, float [T_i].
        alone: share of turns at a state that no other turn of the case has.
    """

    credits: list[Ragged] = field(default_factory=list)
    alone: float = 0.0

    @property
    def played(self) -> Played:
        """Every consultation with its case, case by case."""
        rows = zip(self.cases, self.consultations, strict=True)
        return [(case, consultation) for case, row in rows for consultation in row]

    def metrics(self) -> dict[str, float]:
        """Metric name -> value, the spread of the turns' credits among them."""
        credits = np.concatenate([credit for row in self.credits for credit in row])
        spread = {"credit/turn_spread": float(credits.std()), "credit/alone_share": self.alone}
        return {**super().metrics(), **spread}


@settings(frozen=True, config=STRICT)
class TurnCredit(Grpo):
    """Settings of a credit of turns, and its updates."""

    # They read the correct option's probability.
    OF_BELIEFS: ClassVar[tuple[str, ...]] = ("igpo", "tips", "mt_grpo")
    GROUP = Group

    turn_credit: Literal["igpo", "tips", "vineppo", "gigpo", "mt_grpo"] = field(kw_only=True)
    # whose probability of the correct option those of `OF_BELIEFS` read
    belief: Literal["scorer", "actor"] = "scorer"
    continuations: Whole = 0  # consultations that vineppo plays on from each state

    def __post_init__(self):
        if (self.turn_credit == "vineppo") != (self.continuations > 0):
            raise ValueError("continuations are for turn_credit: vineppo, which needs at least 1")
        if self.belief == "actor" and not self.reads_beliefs:
            raise ValueError(f"belief is for turn_credit: {', '.join(self.OF_BELIEFS)}")

    @property
    def reads_beliefs(self) -> bool:
        """Whether the credit is of the correct option's probability."""
        return self.turn_credit in self.OF_BELIEFS

    @property
    def needs(self) -> frozenset[str]:
        """Services that its runs are lent: the scorer where its credit reads beliefs of it."""
        read = {"scorer"} if self.reads_beliefs and self.belief == "scorer" else set()
        return super().needs | read

    def collect_rollouts(
        self, services: Services, context: RolloutContext, cases: Sequence[Case], update: int
    ) -> TurnBatch:
        """Sample groups of consultations, and give each turn a credit of its own."""
        batch = TurnBatch(**vars(self.sample_groups(services, context, cases, update)))
        groups = self._groups(services, context, batch, f"update/{update}")
        batch.alone = float(np.mean([share_alone(group) for group in groups]))
        credited = credit_update(self.turn_credit, groups, unknown="nan")
        for row, of_case in zip(batch.consultations, credited, strict=True):
            # What a served role did not answer credits nothing.
            credits = [np.nan_to_num(of_turns) for of_turns in of_case]
            batch.credits.append(credits)
            for consultation, of_turns in zip(row, credits, strict=True):
                batch.sequences += executed_sequences(consultation, of_turns)
        return batch

    def _groups(
        self, services: Services, context: RolloutContext, batch: TurnBatch, stage: str
    ) -> list[Group]:
        """What the credit reads, by case."""
        read = self.read(services, context, batch, stage)
        groups, at = [], 0
        for rewards, row in zip(batch.rewards, batch.consultations, strict=True):
            of_case = {name: rows[at : at + len(row)] for name, rows in read.items()}
            groups.append(self.GROUP(rewards, **of_case))
            at += len(row)
        return groups

    def read(
        self, services: Services, context: RolloutContext, batch: TurnBatch, stage: str
    ) -> dict[str, Any]:
        """Fields of `GROUP` -> what they hold of each consultation; no more than the credit needs.

        Args:
            services: what the run lends the method.
            context: roles and protocol.
            batch: the update's; its costs grow by what is sampled here.
            stage: names the random draws.
        """
        states = [[frozenset(turn.exchanges) for turn in c.turns] for _, c in batch.played]
        read: dict[str, Any] = {"states": states}
        if self.reads_beliefs:
            read["beliefs"] = self._beliefs(services, context, batch.played)
        if self.continuations:
            read["values"] = self._values(services, context, batch, stage)
        return read

    def _beliefs(self, services: Services, context: RolloutContext, every: Played) -> Ragged:
        """The correct option's probability before each turn."""
        consultations = [c for _, c in every]
        if self.belief == "actor":
            with context.timed("rollout"):
                read = actor_beliefs(context, consultations)
        else:
            with context.timed("scorer"):
                read = scorer_beliefs(services.scorer, consultations)
        answers = [case.public.labels.index(case.answer) for case, _ in every]
        return [belief[:, y] for belief, y in zip(read, answers, strict=True)]

    def _values(
        self, services: Services, context: RolloutContext, batch: TurnBatch, stage: str
    ) -> Ragged:
        """Monte-Carlo values before each turn; all consultations of a case share the first."""
        every = batch.played
        dialogues = [before_turns(case, consultation) for case, consultation in every]
        shared = [i for i, (_, c) in enumerate(every) if c.rollout and dialogues[i]]
        for i in shared:
            dialogues[i] = dialogues[i][1:]
        flat = [d for row in dialogues for d in row]
        played = continue_all(context, flat, self.continuations, seed=services.seed, stage=stage)
        batch.sampled_tokens += played.sampled_tokens
        batch.continued += played.consultations
        values = np.split(played.values, np.cumsum([len(row) for row in dialogues])[:-1])
        for i in shared:
            values[i] = np.append(values[i - every[i][1].rollout][:1], values[i])
        return values
