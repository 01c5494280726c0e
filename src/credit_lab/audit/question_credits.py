"""Expected credit of candidate questions at a state, over the other candidates there; exact."""

from dataclasses import dataclass, field
from itertools import product

import numpy as np

from credit_lab.audit.dialogues import Words
from credit_lab.audit.tabular import (
    ANSWER,
    ASK,
    Act,
    Patient,
    State,
    TabularPolicy,
    TinyClinic,
    after,
)
from credit_lab.audit.turn_credits import LARGE_UPDATE, multisets, often
from pcqc.methods.c3 import C3
from pcqc.methods.executed_local import ExecutedLocal
from pcqc.methods.expected_answer import ExpectedAnswer
from pcqc.methods.pcqc import Pcqc
from pcqc.methods.peer_credit import expected_probability
from pcqc.methods.question_groups import QuestionGroup


@dataclass
class Supervised:
    """A state at which the first consultation asks, and what its candidates are credited.

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
    """Every supervised state with the expected credits of its candidates."""
    found = supervised_events(policy)
    if isinstance(method, ExecutedLocal):
        _credit_across_update(policy, method, found)
    else:
        for one in found:
            _credit_within(policy, method, one)
    return found


def supervised_events(policy: TabularPolicy) -> list[Supervised]:
    """Every question that a first consultation can execute and that is answered."""
    clinic = policy.clinic
    found = []
    for patient in clinic.patients:
        for count in range(1, clinic.turns):
            for asked in product(range(clinic.findings), repeat=count):
                share = patient.probability
                for turn, finding in enumerate(asked):
                    share *= policy.probability(after(patient, asked[:turn]), (ASK, finding))
                found.append(Supervised(patient, after(patient, asked[:-1]), asked[-1], share))
    return found


def _credit_within(policy: TabularPolicy, method: Pcqc, event: Supervised) -> None:
    """Average a method's credits over all groups of candidates, given the executed question."""
    patient, state = event.patient, event.state
    acts = _acts(policy.clinic)
    likely = np.array([policy.probability(state, act) for act in acts])
    worth = [_utility(policy, method, patient, state, act) for act in acts]
    baseline = _baseline(policy, method, patient, state)
    words, others = Words(policy.clinic), method.question_group - 1
    turn = words.turn(patient, state, [(ASK, event.asked)])
    executed, totals = 0.0, np.zeros(len(acts))
    for chosen, orders in zip(*multisets(len(acts), others), strict=True):
        weight = orders * likely[chosen].prod()
        numbers = [acts.index((ASK, event.asked)), *chosen]
        utilities = np.array([worth[number] for number in numbers])
        case = words.case(patient)
        group = QuestionGroup(case, len(state), turn, baseline, utilities, np.zeros(others + 1))
        method.credit([group])
        executed += weight * group.credits[0]
        np.add.at(totals, chosen, weight * group.credits[1:])
    event.executed = executed
    event.unexecuted = {
        content: total / (others * chance)
        for (kind, content), total, chance in zip(acts, totals, likely, strict=True)
        if kind == ASK
    }


def _credit_across_update(policy: TabularPolicy, method: Pcqc, events: list[Supervised]) -> None:
    """Executed-local: gains are standardised over all events of a large update."""
    words, groups = Words(policy.clinic), []
    for event in events:
        patient, state = event.patient, event.state
        turn = words.turn(patient, state, [(ASK, event.asked)])
        worth = _utility(policy, method, patient, state, (ASK, event.asked))
        baseline = _baseline(policy, method, patient, state)
        case = words.case(patient)
        groups.append(
            QuestionGroup(case, len(state), turn, baseline, np.array([worth]), np.zeros(1))
        )
    times = often([event.probability for event in events], LARGE_UPDATE)
    # One group stands for all of its kind: its credit is the same each time.
    every = [group for group, n in zip(groups, times, strict=True) for _ in range(n)]
    method.credit(every)
    for event, group in zip(events, groups, strict=True):
        event.executed = float(group.credits[0])


def _utility(
    policy: TabularPolicy, method: Pcqc, patient: Patient, state: State, act: Act
) -> float:
    """What a candidate is compared by; see `Pcqc.judge`."""
    clinic, (kind, content) = policy.clinic, act
    if kind == ANSWER:
        if isinstance(method, C3):
            return float(content == patient.option)
        return _baseline(policy, method, patient, state)
    later = (*state, (content, patient.findings[content]))
    if isinstance(method, C3):
        return policy.value(patient, later)
    if isinstance(method, ExpectedAnswer):
        known = content in dict(state)
        chance = clinic.present[content]
        answers = np.ones((1, clinic.options)) if known else np.array([chance, 1 - chance])
        return expected_probability(clinic.posterior(state), answers)
    return float(clinic.posterior(later)[patient.option])


def _baseline(policy: TabularPolicy, method: Pcqc, patient: Patient, state: State) -> float:
    """b(O_t), or what stands for it; a candidate without a question has this utility."""
    belief = policy.clinic.posterior(state)
    if isinstance(method, ExpectedAnswer):
        return expected_probability(belief, np.ones((1, len(belief))))
    return float(belief[patient.option])


def _acts(clinic: TinyClinic) -> list[Act]:
    asks = [(ASK, finding) for finding in range(clinic.findings)]
    return asks + [(ANSWER, option) for option in range(clinic.options)]
