"""Expected credit of candidate questions at a state, over the other candidates there; exact."""

from dataclasses import dataclass, field
from itertools import product

import numpy as np

from credit_lab.audit.tabular import ANSWER, ASK, Act, Patient, State, TabularPolicy, after
from credit_lab.audit.turn_credits import LARGE_UPDATE, multisets, often
from pcqc.methods.c3 import C3
from pcqc.methods.executed_local import ExecutedLocal
from pcqc.methods.expected_answer import ExpectedAnswer
from pcqc.methods.pcqc import Pcqc
from turn_credit.arithmetic import executed_local_credit, expected_probability


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


def question_credits(policy: TabularPolicy, method: Pcqc) -> list[Supervised]:
    """Every supervised state, with the expected credits of its candidates.

    A state is supervised where a first consultation asks a question that is answered.
    """
    clinic, events = policy.clinic, []
    for patient in clinic.patients:
        for count in range(1, clinic.turns):
            for asked in product(range(clinic.findings), repeat=count):
                share = patient.probability
                for turn, finding in enumerate(asked):
                    share *= policy.probability(after(patient, asked[:turn]), (ASK, finding))
                events.append(Supervised(patient, after(patient, asked[:-1]), asked[-1], share))
    if isinstance(method, ExecutedLocal):
        _credit_across_update(policy, method, events)
    else:
        for event in events:
            _credit_within(policy, method, event)
    return events


def _credit_within(policy: TabularPolicy, method: Pcqc, event: Supervised) -> None:
    """Average a method's credits over all groups of candidates, given the executed question."""
    clinic, others = policy.clinic, method.question_group - 1
    acts = [(ASK, finding) for finding in range(clinic.findings)]
    acts += [(ANSWER, option) for option in range(clinic.options)]
    likely = np.array([policy.probability(event.state, act) for act in acts])
    utilities = np.array([_utility(policy, method, event, act) for act in acts])
    gains = utilities - _baseline(policy, method, event)
    executed, totals = 0.0, np.zeros(len(acts))
    for chosen, orders in zip(*multisets(len(acts), others), strict=True):
        credits = method.compare(gains[[acts.index((ASK, event.asked)), *chosen]])
        weight = orders * likely[chosen].prod()
        executed += weight * credits[0]
        np.add.at(totals, chosen, weight * credits[1:])
    event.executed = executed
    event.unexecuted = {
        content: total / (others * chance)
        for (kind, content), total, chance in zip(acts, totals, likely, strict=True)
        if kind == ASK
    }


def _credit_across_update(policy: TabularPolicy, method: Pcqc, events: list[Supervised]) -> None:
    """Executed-local: gains are standardised over all events of a large update."""
    gains = [
        _utility(policy, method, event, (ASK, event.asked)) - _baseline(policy, method, event)
        for event in events
    ]
    times = often([event.probability for event in events], LARGE_UPDATE)
    credits = executed_local_credit(np.repeat(gains, times).tolist())
    for event, first in zip(events, np.cumsum(times) - times, strict=True):
        event.executed = float(credits[first])


def _utility(policy: TabularPolicy, method: Pcqc, event: Supervised, act: Act) -> float:
    """What a candidate is compared by; see `Pcqc.judge` and those of its subclasses."""
    clinic, patient, (kind, content) = policy.clinic, event.patient, act
    if kind == ANSWER:
        if isinstance(method, C3):
            return float(content == patient.option)
        return _baseline(policy, method, event)
    later = (*event.state, (content, patient.findings[content]))
    if isinstance(method, C3):
        return policy.value(patient, later)
    if isinstance(method, ExpectedAnswer):
        known, chance = content in dict(event.state), clinic.present[content]
        answers = np.ones((1, clinic.options)) if known else np.array([chance, 1 - chance])
        return expected_probability(clinic.posterior(event.state), answers)
    return float(clinic.posterior(later)[patient.option])


def _baseline(policy: TabularPolicy, method: Pcqc, event: Supervised) -> float:
    """b(O_t), or its equivalent by the method's utility; that of a candidate without a question."""
    belief = policy.clinic.posterior(event.state)
    if isinstance(method, ExpectedAnswer):
        return expected_probability(belief, np.ones((1, len(belief))))
    return float(belief[event.patient.option])
