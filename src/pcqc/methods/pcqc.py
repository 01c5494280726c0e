"""PCQC, and its controls Executed-local and Same-State-Q1 as settings.

Samples: GRPO's consultations; at every state of a case's first one at which a question can still
be answered, `question_group` (G_Q) responses, of which the first is executed.
Credits: consultations as GRPO does; questions by what their answers tell the frozen scorer
(`question_credit`: same_state or executed_local).
Trains on: GRPO's tokens and, weighed by `beta`, the question tokens of all candidates, or of the
executed ones alone (`supervise`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from pcqc.cases import Case
from pcqc.config import Method
from pcqc.consultation import Consultation, RolloutContext, Turn
from pcqc.credit import diagnostic_gain, executed_local_credit, same_state_credit
from pcqc.engines.base import Failure
from pcqc.methods.grpo import GroupBatch, Grpo
from pcqc.methods.sequences import QUESTION, candidate_sequences, executed_sequences
from pcqc.protocol import Exchange
from pcqc.roles import Scorer
from pcqc.training.policy import Policy
from pcqc.training.sequences import TrainingSequence


@dataclass
class QuestionGroup:
    """The candidates of one supervised state (eq:counterfactual_qa_group).

    Attributes:
        case: with the answer that indexes the scorer's probabilities.
        number: of the turn in its consultation.
        turn: state and responses, the executed one first.
        baseline: b(O_t), the correct option's probability before the exchange.
        utilities: u_i of every response [K]; a response without a parsed question adds no evidence,
            so the scorer would read the very state O_t: its utility is b(O_t), its gain 0.
        credits: question credit of every response [K], 0 where it is not supervised.
    """

    case: Case
    number: int
    turn: Turn
    baseline: float
    utilities: np.ndarray
    credits: np.ndarray

    @property
    def gains(self) -> np.ndarray:
        return diagnostic_gain(self.utilities, self.baseline)

    @property
    def utility_std(self) -> float:
        """sigma_Q, the sample standard deviation (eq:question_group_statistics)."""
        return float(self.utilities.std(ddof=1))


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
        scorer: frozen.
    """

    def __init__(self, settings: Method, policy: Policy, seed: int, scorer: Scorer):
        super().__init__(settings, policy, seed)
        self.scorer = scorer

    @property
    def coefficients(self) -> dict[str, float]:
        """Weight of each term of the loss (eq:pcqc_objective)."""
        return {**super().coefficients, QUESTION: self.settings.beta}

    def collect_rollouts(
        self, context: RolloutContext, cases: Sequence[Case], update: int
    ) -> QuestionBatch:
        """See `Grpo.collect_rollouts`; questions are scored and credited too."""
        batch = QuestionBatch(**vars(self.sample_groups(context, cases, update)))
        firsts = [row[0] for row in batch.consultations]
        with context.timed("scorer"):
            per_case = score_groups(self.scorer, list(zip(batch.cases, firsts, strict=True)))
        batch.groups = [group for groups in per_case for group in groups]
        states = sum(len(supervised_states(first)) for first in firsts)
        batch.failures["failures/scorer"] = states - len(batch.groups)
        assign_credit(batch.groups, self.settings)
        for row, scores, groups in zip(
            batch.consultations, batch.advantages, per_case, strict=True
        ):
            batch.sequences += case_sequences(row, scores, groups, self.settings)
        return batch


def supervised_states(consultation: Consultation) -> list[tuple[int, Turn]]:
    """Turns at which candidates were drawn and the executed response asked a question."""
    return [
        (number, turn)
        for number, turn in enumerate(consultation.turns)
        if len(turn.responses) > 1 and turn.executed.answer is not None
    ]


def score_groups(
    scorer: Scorer, firsts: Sequence[tuple[Case, Consultation]]
) -> list[list[QuestionGroup]]:
    """Utilities of all candidates at each state of the consultations, in one call of the scorer.

    Returns:
        One list of groups per consultation; a state on which the scorer failed has none.
    """
    evidence = []
    for case, consultation in firsts:
        for _, turn in supervised_states(consultation):
            evidence.append((case.public, turn.exchanges))
            evidence += [(case.public, _after(turn, k)) for k in range(len(turn.responses))]
    probabilities = iter(scorer.probabilities(evidence))
    groups: list[list[QuestionGroup]] = []
    for case, consultation in firsts:
        answer = case.public.labels.index(case.answer)
        groups.append([])
        for number, turn in supervised_states(consultation):
            read = [next(probabilities) for _ in range(1 + len(turn.responses))]
            scored = [float(one[answer]) for one in read if not isinstance(one, Failure)]
            if len(scored) < len(read):
                continue
            baseline, *utilities = scored
            none = np.zeros(len(utilities))
            groups[-1].append(
                QuestionGroup(case, number, turn, baseline, np.array(utilities), none)
            )
    return groups


def _after(turn: Turn, candidate: int) -> tuple[Exchange, ...]:
    """O_t plus the candidate's exchange, or O_t itself where it asked nothing."""
    response = turn.responses[candidate]
    if response.answer is None:
        return turn.exchanges
    return (*turn.exchanges, Exchange(response.action.question, response.answer))


def assign_credit(groups: Sequence[QuestionGroup], settings: Method) -> None:
    """Fill in each group's credits.

    `same_state` compares within the group (eq:group_credit); `executed_local` standardises the
    executed questions' gains across the update (app:executed_local_credit). With `supervise:
    executed`, the credit of unexecuted candidates is dropped after it has been computed
    (app:same_state_q1).
    """
    if settings.question_credit == "same_state":
        for group in groups:
            group.credits = same_state_credit(group.gains)
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
