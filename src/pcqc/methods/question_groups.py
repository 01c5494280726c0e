"""Candidate questions of a state: their utilities and their credits."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from pcqc.cases.case import Case
from pcqc.consultation import Consultation, Turn
from pcqc.engines.base import Failure
from pcqc.methods.sequences import Spans
from pcqc.roles import Scorer
from turn_credit.arithmetic import diagnostic_gain

Firsts = Sequence[tuple[Case, Consultation]]  # the first consultation of each case


@dataclass
class QuestionGroup:
    """The candidates of one supervised state (eq:counterfactual_qa_group).

    Attributes:
        case: with the answer that indexes the scorer's probabilities.
        number: the turn's in its consultation.
        turn: state and responses, the executed one first.
        baseline: b(O_t), the correct option's probability before the exchange; where continuations
            or imagined answers judge, the mean of the utilities.
        utilities: u_i of every response [K]. Without a parsed question there is no new evidence and
            the scorer would read the very state O_t: the utility is b(O_t), the gain 0. Other
            judges value such a response by what follows it.
        credits: of each response's question [K]; 0 before it is credited and where none is trained.
        spans: what is credited of every response beside its question; nothing in PCQC.
    """

    case: Case
    number: int
    turn: Turn
    baseline: float
    utilities: np.ndarray
    credits: np.ndarray = field(init=False)
    spans: list[Spans] = field(init=False, default_factory=list)

    def __post_init__(self):
        self.credits = np.zeros(len(self.utilities))

    def credit_spans(self, credits: np.ndarray) -> None:
        """Give the spans of every response its credit [K]."""
        self.spans = [
            {name: (first, stop, float(credit)) for name, (first, stop, _) in spans.items()}
            for spans, credit in zip(self.spans, credits, strict=True)
        ]

    @property
    def gains(self) -> np.ndarray:
        """u_i - b(O_t) of every response [K]."""
        return diagnostic_gain(self.utilities, self.baseline)

    @property
    def utility_std(self) -> float:
        """sigma_Q, the sample standard deviation (eq:question_group_statistics)."""
        return float(self.utilities.std(ddof=1))


@dataclass(frozen=True)
class Judged:
    """Candidate groups with utilities.

    Attributes:
        groups: one list per consultation; a state that could not be judged has none.
        consultations: how many complete ones were played to judge.
        sampled_tokens: that the actor sampled in these.
    """

    groups: list[list[QuestionGroup]]
    consultations: int = 0
    sampled_tokens: int = 0


def supervised_states(consultation: Consultation) -> list[tuple[int, Turn]]:
    """Turns at which candidates were drawn and the executed response asked a question."""
    return [
        (number, turn)
        for number, turn in enumerate(consultation.turns)
        if len(turn.responses) > 1 and turn.executed.answer is not None
    ]


def states_of(firsts: Firsts) -> list[tuple[int, int]]:
    """Number of the consultation and of the turn of every supervised state."""
    return [(i, n) for i, (_, c) in enumerate(firsts) for n, _ in supervised_states(c)]


def score_groups(scorer: Scorer, firsts: Firsts) -> list[list[QuestionGroup]]:
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
            scored = [float(row[answer]) for row in read if not isinstance(row, Failure)]
            if len(scored) < len(read):
                continue
            baseline, *utilities = scored
            groups[-1].append(QuestionGroup(case, number, turn, baseline, np.array(utilities)))
    return groups


def groups_of_values(
    firsts: Firsts, places: Sequence[tuple[int, int]], values: Sequence[np.ndarray]
) -> list[list[QuestionGroup]]:
    """Groups from utilities that were found elsewhere; the baseline is the mean of a state's own.

    Args:
        firsts: the consultations.
        places: number of the consultation and of the turn, for each state.
        values: float [K] of each state; one with a NaN could not be judged, and has no group.
    """
    groups: list[list[QuestionGroup]] = [[] for _ in firsts]
    for (i, number), utilities in zip(places, values, strict=True):
        if not np.isnan(utilities).any():
            case, consultation = firsts[i]
            turn, mean = consultation.turns[number], float(utilities.mean())
            groups[i].append(QuestionGroup(case, number, turn, mean, utilities))
    return groups
