"""Candidate questions of a state, and what the scorer makes of their answers."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pcqc.cases.case import Case
from pcqc.consultation import Consultation, Turn
from pcqc.engines.base import Failure
from pcqc.methods.credit import diagnostic_gain
from pcqc.roles import Scorer


@dataclass
class QuestionGroup:
    """The candidates of one supervised state (eq:counterfactual_qa_group).

    Attributes:
        case: with the answer that indexes the scorer's probabilities.
        number: of the turn in its consultation.
        turn: state and responses, the executed one first.
        baseline: b(O_t), the correct option's probability before the exchange; where continuations
            or imagined answers judge, the mean of the utilities; where the clinic's exact answer
            distribution judges, the expected probability without an exchange.
        utilities: u_i of every response [K]. Without a parsed question there is no new evidence and
            the scorer would read the very state O_t: the utility is b(O_t), the gain 0. Other
            judges value such a response by what follows it.
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
            evidence += [(case.public, r.adds_to(turn.exchanges)) for r in turn.responses]
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
