"""Expected credit of candidate questions at a state, over the other candidates there; exact."""

from dataclasses import dataclass, field
from itertools import product
from typing import Literal

import numpy as np

from credit_lab.audit.tabular import ANSWER, ASK, Act, Patient, State, TabularPolicy, after
from credit_lab.audit.turn_credits import LARGE_UPDATE, multisets, often
from pcqc.methods.c3 import C3
from pcqc.methods.executed_local import ExecutedLocal
from pcqc.methods.expected_answer import ExpectedAnswer
from pcqc.methods.pcqc import Pcqc
from turn_credit.arithmetic import executed_local_credit, expected_probability

Reading = Literal["utilities", "continued", "expected"]  # fields of `turn_credit.Group`


@dataclass
class Supervised:
    """A state at which the first consultation asks, and the credits of its candidates.

    Attributes:
        patient: who is asked.
        state: before the question.
        asked: the executed question.
        probability: of meeting the patient, reaching the state and asking this.
        executed: E[credit] of the executed question.
        unexecuted: finding -> E[credit] of an unexecuted candidate that asks about it.
    """

    patient: Patient
    state: State
    asked: int
    probability: float
    executed: float = 0.0
    unexecuted: dict[int, float] = field(default_factory=dict)

    def average(
        self, candidates: "Candidates", others: int, executed: float, totals: np.ndarray
    ) -> None:
        """Take the expected credits from their sums over all groups of candidates.

        Args:
            candidates: of the state.
            others: unexecuted candidates of a group.
            executed: E[credit] of the executed question.
            totals: of each act the sum of its credits as an unexecuted candidate.
        """
        self.executed = executed
        self.unexecuted = {
            content: total / (others * chance)
            for (kind, content), total, chance in zip(
                candidates.acts, totals, candidates.likely, strict=True
            )
            if kind == ASK
        }


@dataclass(frozen=True)
class Candidates:
    """What may be sampled at a state: acts, and float [acts], their probabilities."""

    acts: list[Act]
    likely: np.ndarray


def candidates_at(policy: TabularPolicy, state: State) -> Candidates:
    """All questions, then all diagnoses."""
    clinic = policy.clinic
    acts: list[Act] = [(ASK, finding) for finding in range(clinic.findings)]
    acts += [(ANSWER, option) for option in range(clinic.options)]
    return Candidates(acts, np.array([policy.probability(state, act) for act in acts]))


def supervised_states(policy: TabularPolicy) -> list[Supervised]:
    """Every state at which a first consultation asks a question that is answered."""
    clinic, events = policy.clinic, []
    for patient in clinic.patients:
        for count in range(1, clinic.turns):
            for asked in product(range(clinic.findings), repeat=count):
                share = patient.probability
                for turn, finding in enumerate(asked):
                    share *= policy.probability(after(patient, asked[:turn]), (ASK, finding))
                events.append(Supervised(patient, after(patient, asked[:-1]), asked[-1], share))
    return events


def question_credits(policy: TabularPolicy, method: Pcqc) -> list[Supervised]:
    """Every supervised state, with the expected credits of its candidates."""
    events = supervised_states(policy)
    if isinstance(method, ExecutedLocal):
        _credit_across_update(policy, method, events)
    else:
        for event in events:
            _credit_within(policy, method, event)
    return events


def _credit_within(policy: TabularPolicy, method: Pcqc, event: Supervised) -> None:
    """Average a method's credits over all groups of candidates, given the executed question."""
    others, candidates = method.question_group - 1, candidates_at(policy, event.state)
    acts, likely = candidates.acts, candidates.likely
    reading = _reading(method)
    utilities = np.array([worth(policy, event, act, reading) for act in acts])
    gains = utilities - baseline(policy, event, reading)
    executed, totals = 0.0, np.zeros(len(acts))
    for chosen, orders in zip(*multisets(len(acts), others), strict=True):
        credits = method.compare(gains[[acts.index((ASK, event.asked)), *chosen]])
        weight = orders * likely[chosen].prod()
        executed += weight * credits[0]
        np.add.at(totals, chosen, weight * credits[1:])
    event.average(candidates, others, executed, totals)


def _credit_across_update(policy: TabularPolicy, method: Pcqc, events: list[Supervised]) -> None:
    """Executed-local: gains are standardised over all events of a large update."""
    reading = _reading(method)
    gains = [
        worth(policy, event, (ASK, event.asked), reading) - baseline(policy, event, reading)
        for event in events
    ]
    times = often([event.probability for event in events], LARGE_UPDATE)
    credits = executed_local_credit(np.repeat(gains, times).tolist())
    for event, first in zip(events, np.cumsum(times) - times, strict=True):
        event.executed = float(credits[first])


def _reading(method: Pcqc) -> Reading:
    """By what a method compares candidates; see `Pcqc.judge` and those of its subclasses."""
    if isinstance(method, C3):
        return "continued"
    return "expected" if isinstance(method, ExpectedAnswer) else "utilities"


def worth(policy: TabularPolicy, event: Supervised, act: Act, reading: Reading) -> float:
    """What a field of `turn_credit.Group` has of a candidate; exact."""
    clinic, patient, (kind, content) = policy.clinic, event.patient, act
    if kind == ANSWER:
        if reading == "continued":
            return float(content == patient.option)
        return baseline(policy, event, reading)
    later = (*event.state, (content, patient.findings[content]))
    if reading == "continued":
        return policy.value(patient, later)
    if reading == "expected":
        known, chance = content in dict(event.state), clinic.present[content]
        answers = np.ones((1, clinic.options)) if known else np.array([chance, 1 - chance])
        return expected_probability(clinic.posterior(event.state), answers)
    return float(clinic.posterior(later)[patient.option])


def baseline(policy: TabularPolicy, event: Supervised, reading: Reading) -> float:
    """The same of a candidate that asks nothing, before any is played on."""
    belief = policy.clinic.posterior(event.state)
    if reading == "expected":
        return expected_probability(belief, np.ones((1, len(belief))))
    return float(belief[event.patient.option])
