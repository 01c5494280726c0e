"""PCQC, and with `supervise: executed` its control Same-State-Q1 (app:same_state_q1).

Samples: GRPO's consultations; at every state of a case's first one at which a question can still
be answered, `question_group` (G_Q) responses, of which the first is executed.
Credits: consultations as GRPO does; each question by what its answer tells the frozen scorer of the
correct option, compared with the other questions at the same state (eq:group_credit).
Trains on: GRPO's tokens and, weighed by `beta`, the question tokens of all candidates, or of the
executed ones alone (`supervise`).

`executed_local.py`, `c3.py` and `expected_answer.py` change the credit or what questions are
compared by.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass as settings

from pcqc.cases.case import Case
from pcqc.consultation import Consultation, RolloutContext
from pcqc.logged.question_groups import group_metrics, group_row
from pcqc.methods.base import Services
from pcqc.methods.grpo import GroupBatch, Grpo
from pcqc.methods.question_groups import (
    Firsts,
    Judged,
    QuestionGroup,
    score_groups,
    supervised_states,
)
from pcqc.methods.sequences import QUESTION, candidate_sequences, executed_sequences
from pcqc.training.training_sequence import TrainingSequence
from pcqc_base.settings.types import STRICT, Weight
from turn_credit.arithmetic import THRESHOLD, Divisor, pooled_variance, same_state_credit


@dataclass
class QuestionBatch(GroupBatch):
    """Groups of consultations, with candidate questions at the states of the first.

    Attributes:
        groups: scored and credited question groups.
        trained: how many candidates of a group are trained on, the executed one first.
    """

    groups: list[QuestionGroup] = field(default_factory=list)
    trained: int = 1

    def metrics(self) -> dict[str, float]:
        """Metric name -> value, those of question groups among them."""
        return {**super().metrics(), **group_metrics(self.groups)}

    def records(self) -> dict[str, list[dict]]:
        """Rows for `candidate_groups.jsonl`, one per state."""
        return {"candidate_groups": [group_row(group, self.trained) for group in self.groups]}


@settings(frozen=True, config=STRICT)
class Pcqc(Grpo):
    """PCQC's settings and updates.

    The entries of `config/methods.yaml` and of a study win over defaults here.

    Attributes:
        scorer_during_rollouts: whether the scorer may read candidates while dialogues go on.
    """

    question_group: Annotated[int, Field(ge=2, le=10**9)] = 4  # G_Q, responses at a state
    beta: Weight = 1.0  # weight of the question loss (eq:pcqc_objective)
    supervise: Literal["all", "executed"] = "all"  # whose question tokens are trained on
    # by what the gains of a state are divided: see `same_state_credit`; the paper has `group`
    divide: Divisor = "group"
    least_spread: Weight = THRESHOLD  # tau: a state with a smaller standard deviation has no credit

    scorer_during_rollouts: ClassVar[bool] = True

    @property
    def trained_candidates(self) -> int:
        """How many of a state's candidates are trained on, the executed one first."""
        return self.question_group if self.supervise == "all" else 1

    @property
    def needs(self) -> frozenset[str]:
        """Services that its runs are lent, the scorer among them."""
        return super().needs | {"scorer"}

    @property
    def coefficients(self) -> dict[str, float]:
        """Weight of each term of the loss (eq:pcqc_objective)."""
        return {**super().coefficients, QUESTION: self.beta}

    def collect_rollouts(
        self, services: Services, context: RolloutContext, cases: Sequence[Case], update: int
    ) -> QuestionBatch:
        """Sample an update's consultations and candidates, and credit both."""
        if self.scorer_during_rollouts:
            context = replace(context, scorer=services.scorer)
        sampled = self.sample_groups(services, context, cases, update, self.question_group)
        batch = QuestionBatch(**vars(sampled), trained=self.trained_candidates)
        firsts = [row[0] for row in batch.consultations]
        pairs = list(zip(batch.cases, firsts, strict=True))
        judged = self.judge(services, context, pairs, f"update/{update}")
        batch.groups = [group for groups in judged.groups for group in groups]
        batch.continued += judged.consultations
        batch.sampled_tokens += judged.sampled_tokens
        states = sum(len(supervised_states(first)) for first in firsts)
        judged_states = sum(group.turn.executed.answer is not None for group in batch.groups)
        batch.failures["failures/scorer"] = states - judged_states
        self.credit(batch.groups)
        for row, scores, groups in zip(
            batch.consultations, batch.advantages, judged.groups, strict=True
        ):
            batch.sequences += self.case_sequences(row, scores, groups)
        return batch

    def judge(
        self, services: Services, context: RolloutContext, firsts: Firsts, stage: str
    ) -> Judged:
        """What questions are compared by: u_i of eq:diagnostic_utility.

        Args:
            services: with the scorer.
            context: roles and rules.
            firsts: consultations with candidates.
            stage: part of every random stream's name.
        """
        with context.timed("scorer"):
            return Judged(score_groups(services.scorer, firsts))

    def credit(self, groups: Sequence[QuestionGroup]) -> None:
        """Fill in each group's credits; candidates that are not trained on get 0."""
        pooled = pooled_variance([group.gains for group in groups])
        for group in groups:
            group.credits = same_state_credit(group.gains, self.divide, self.least_spread, pooled)
            group.credits[self.trained_candidates :] = 0

    def case_sequences(
        self, row: Sequence[Consultation], advantages: np.ndarray, groups: Sequence[QuestionGroup]
    ) -> list[TrainingSequence]:
        """What is trained on of one case.

        Args:
            row: its consultations; the groups are of the first.
            advantages: float [G_T], terminal advantages.
            groups: credited question groups.
        """
        asked = [group for group in groups if group.turn.executed.question_start is not None]
        credits = {group.number: float(group.credits[0]) for group in asked}
        spans = {group.number: group.spans[0] for group in groups if group.spans}
        sequences = executed_sequences(row[0], advantages[0], credits, spans=spans)
        trained = slice(self.trained_candidates)
        for group in groups:
            credited = group.credits[trained], group.spans[trained]
            sequences += candidate_sequences(group.turn, *credited)
        for consultation, score in zip(row[1:], advantages[1:], strict=True):
            sequences += executed_sequences(consultation, score)
        return sequences
