"""PCQC. Its settings also make the controls Executed-local and Same-State-Q1, and two credits of
docs/credits.md: C3 and the expected answer.

Samples: GRPO's consultations; at every state of a case's first one at which a question can still
be answered, `question_group` (G_Q) responses, of which the first is executed.
Credits: consultations as GRPO does; questions (`question_credit`) by their utilities, which are
what their answers tell the frozen scorer, or another judge (`question_utilities.py`).
Trains on: GRPO's tokens and, weighed by `beta`, the question tokens of all candidates, or of the
executed ones alone (`supervise`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from pcqc.cases.case import Case
from pcqc.consultation import Consultation, RolloutContext
from pcqc.methods.credit import executed_local_credit, same_state_credit
from pcqc.methods.grpo import GroupBatch, Grpo
from pcqc.methods.peer_credit import leave_one_out
from pcqc.methods.question_groups import QuestionGroup, supervised_states
from pcqc.methods.question_utilities import Name, Utility
from pcqc.methods.sequences import QUESTION, candidate_sequences, executed_sequences
from pcqc.study import Method
from pcqc.training.policy import Policy
from pcqc.training.sequences import TrainingSequence


@dataclass
class QuestionBatch(GroupBatch):
    """Groups of consultations, with candidate questions at the states of the first.

    Attributes:
        groups: scored and credited question groups.
    """

    groups: list[QuestionGroup] = field(default_factory=list)


class Pcqc(Grpo):
    """See the module.

    Args:
        settings: group sizes, question credit, coefficients.
        policy: the actor in training.
        seed: of the run.
        utility: judges candidate questions.
    """

    def __init__(self, settings: Method, policy: Policy, seed: int, utility: Utility):
        super().__init__(settings, policy, seed)
        self.utility = utility

    @property
    def coefficients(self) -> dict[str, float]:
        """Weight of each term of the loss (eq:pcqc_objective)."""
        return {**super().coefficients, QUESTION: self.settings.beta}

    def collect_rollouts(
        self, context: RolloutContext, cases: Sequence[Case], update: int
    ) -> QuestionBatch:
        """See `Grpo.collect_rollouts`; questions are judged and credited too."""
        batch = QuestionBatch(**vars(self.sample_groups(context, cases, update)))
        firsts = [row[0] for row in batch.consultations]
        pairs = list(zip(batch.cases, firsts, strict=True))
        judged = self.utility(context, pairs, Name(self.seed, f"update/{update}"))
        batch.groups = [group for groups in judged.groups for group in groups]
        batch.continued += judged.consultations
        batch.sampled_tokens += judged.sampled_tokens
        states = sum(len(supervised_states(first)) for first in firsts)
        batch.failures["failures/scorer"] = states - len(batch.groups)
        assign_credit(batch.groups, self.settings)
        for row, scores, groups in zip(
            batch.consultations, batch.advantages, judged.groups, strict=True
        ):
            batch.sequences += case_sequences(row, scores, groups, self.settings)
        return batch


def assign_credit(groups: Sequence[QuestionGroup], settings: Method) -> None:
    """Fill in each group's credits.

    `same_state` compares within the group (eq:group_credit), `leave_one_out` with the mean of the
    others there; `executed_local` standardises the executed questions' gains across the update
    (app:executed_local_credit). With `supervise:
    executed`, the credit of unexecuted candidates is dropped after it has been computed
    (app:same_state_q1).
    """
    within = {"same_state": same_state_credit, "leave_one_out": leave_one_out}
    if credit := within.get(settings.question_credit):
        for group in groups:
            group.credits = credit(group.gains)
            if settings.supervise == "executed":
                group.credits[1:] = 0
    elif settings.question_credit == "executed_local":
        credits = executed_local_credit([group.gains[0] for group in groups])
        for group, credit in zip(groups, credits, strict=True):
            group.credits[0] = credit


def case_sequences(
    row: Sequence[Consultation],
    advantages: np.ndarray,
    groups: Sequence[QuestionGroup],
    settings: Method,
) -> list[TrainingSequence]:
    """What is trained on of one case.

    Args:
        row: its consultations; the groups are of the first.
        advantages: float [G_T], terminal advantages.
        groups: credited question groups.
        settings: whose question tokens are supervised.
    """
    credits = {group.number: float(group.credits[0]) for group in groups}
    sequences = executed_sequences(row[0], advantages[0], credits)
    if settings.supervise == "all":
        for group in groups:
            sequences += candidate_sequences(group.turn, group.credits)
    for consultation, score in zip(row[1:], advantages[1:], strict=True):
        sequences += executed_sequences(consultation, score)
    return sequences
