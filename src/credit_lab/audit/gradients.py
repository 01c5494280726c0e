"""A credit's expected gradient in a clinic small enough to enumerate, beside the policy gradient.

The gradient is taken at the sampling policy. There every ratio is 1, and the clipped objective's
gradient is A grad log pi of each covered token (eq:question_objective). A credit of turns covers
both tokens of a response, a credit of questions the question alone, after its marker; a test
compares both with the learner's loss on sampled consultations.

Exact, for updates of many cases: the count of tokens that divides a term is then its expected
value. The KL penalty has no gradient where the policy is its reference, and is left out.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import product

import numpy as np

from credit_lab.audit.enumerable_clinic import (
    ANSWER,
    ASK,
    CLINIC,
    Act,
    Patient,
    State,
    TabularPolicy,
    add_course,
    after,
    exact_gradient,
    policies,
    questions,
)
from credit_lab.audit.turn_credits import (
    LARGE_UPDATE,
    Credits,
    across_update,
    group_credits,
    multisets,
    often,
)
from credit_lab.two_token_policies import Parts
from turn_credit import Credit, Group, credit_update
from turn_credit.arithmetic import expected_probability

CONSULTATIONS, CANDIDATES = 3, 4  # of a group, of a state
NOTHING = 1e-10  # a gradient that is shorter has no direction


@dataclass(frozen=True)
class Beside:
    """A credit's expected gradient beside the exact one, at one policy; NaN where one is nothing.

    Attributes:
        choice: cosine of the parts for asking or answering; NaN for a credit of questions, which
            leaves that choice alone.
        question: cosine of the parts for which question.
        norm: the question part's, divided by the exact one's.
        asking: how much more than the exact gradient the choice part pushes towards asking: its
            cosine with the gradient of the number of questions, less the exact gradient's.
    """

    choice: float
    question: float
    norm: float
    asking: float


def compare(credit: Credit, reads: set[str], reader: str, alone: bool) -> dict[str, Beside]:
    """Name of a policy -> the credit's gradient beside the exact one.

    Args:
        credit: to judge.
        reads: fields of `Group` that it reads.
        reader: whose beliefs, `scorer` (the exact posterior) or `actor`.
        alone: whether it leaves all candidates but the executed one without credit.
    """
    besides = {}
    for name, (policy, exact, more) in _policies().items():
        if credit.of == "questions":
            own = question_gradient(policy, credit, alone)
        elif "values" in reads:
            own = terminal_gradient(policy, across_update(policy, credit))
        else:
            read = policy if reader == "actor" else None
            credits = group_credits(policy, credit, CONSULTATIONS, read, "shifts" in reads)
            own = terminal_gradient(policy, credits)
        norms = np.linalg.norm(own.question), np.linalg.norm(exact.question)
        besides[name] = Beside(
            cosine(own.choice, exact.choice),
            cosine(own.question, exact.question),
            float(norms[0] / norms[1]) if min(norms) > NOTHING else np.nan,
            cosine(own.choice, more) - cosine(exact.choice, more),
        )
    return besides


@cache
def _policies() -> dict[str, tuple[TabularPolicy, Parts, np.ndarray]]:
    """Each with its exact gradient, and the choice part of that of the number of questions."""
    return {
        name: (policy, exact_gradient(policy), exact_gradient(policy, questions).choice)
        for name, policy in policies(CLINIC).items()
    }


def cosine(first: np.ndarray, second: np.ndarray) -> float:
    """Of two parts of gradients; NaN where either is nothing."""
    norms = np.linalg.norm(first), np.linalg.norm(second)
    return float((first * second).sum() / np.prod(norms)) if min(norms) > NOTHING else np.nan


def terminal_gradient(policy: TabularPolicy, credits: Credits) -> Parts:
    """Of a term on all tokens of a consultation, each with the credit of its turn."""
    weights, tokens = policy.clinic.zeros(), 0.0
    for (patient, course), of_turns in credits.items():
        share = patient.probability * policy.course_probability(patient, course)
        add_course(weights, policy.clinic, patient, course, share * of_turns)
        tokens += share * 2 * len(course)
    return policy.gradient(weights).times(1 / tokens)


@dataclass
class Supervised:
    """A state at which a consultation asks, and the credits of its candidates.

    Attributes:
        patient: who is asked.
        state: before the question.
        asked: the executed question.
        probability: that of meeting the patient, reaching the state and asking this.
        executed: E[credit] of the executed question.
        unexecuted: finding -> E[credit] of an unexecuted candidate that asks about it.
    """

    patient: Patient
    state: State
    asked: int
    probability: float
    executed: float = 0.0
    unexecuted: dict[int, float] = field(default_factory=dict)


def question_gradient(
    policy: TabularPolicy, credit: Credit, alone: bool, candidates: int = CANDIDATES
) -> Parts:
    """Of the question term (eq:question_objective), over all groups of candidates.

    Args:
        policy: that samples.
        credit: one of questions.
        alone: see `compare`.
        candidates: how many a state has.
    """
    clinic, others = policy.clinic, candidates - 1
    weights, tokens = clinic.zeros(), 0.0
    for event in supervised_events(policy, credit, candidates):
        asked = [(event.asked, event.probability, event.executed)]
        for finding, value in {} if alone else event.unexecuted.items():
            times = others * policy.probability(event.state, (ASK, finding))
            asked.append((finding, event.probability * times, value))
        for finding, times, value in asked:
            weights.question[clinic.states[event.state], finding] += times * value
            tokens += times
    return policy.gradient(weights).times(1 / tokens)


def supervised_events(policy: TabularPolicy, credit: Credit, candidates: int) -> list[Supervised]:
    """Every state at which a consultation asks, with the expected credits of its candidates."""
    events = _events(policy)
    if credit.scope == "update":
        _across_update(policy, credit, events)
    else:
        for event in events:
            _within(policy, credit, event, candidates - 1)
    return events


def _events(policy: TabularPolicy) -> list[Supervised]:
    """Every state at which a consultation asks a question that is answered."""
    clinic, events = policy.clinic, []
    for patient in clinic.patients:
        for count in range(1, clinic.turns):
            for asked in product(range(clinic.findings), repeat=count):
                share = patient.probability
                for turn, finding in enumerate(asked):
                    share *= policy.probability(after(patient, asked[:turn]), (ASK, finding))
                events.append(Supervised(patient, after(patient, asked[:-1]), asked[-1], share))
    return events


def _within(policy: TabularPolicy, credit: Credit, event: Supervised, others: int) -> None:
    """Average the credits over all groups of candidates, given the executed question."""
    clinic = policy.clinic
    acts: list[Act] = [(ASK, finding) for finding in range(clinic.findings)]
    acts += [(ANSWER, option) for option in range(clinic.options)]
    likely = np.array([policy.probability(event.state, act) for act in acts])
    chosen, orders = multisets(len(acts), others)
    groups = np.column_stack([np.full(len(chosen), event.asked), chosen])
    credits = np.array(credit(_group(policy, event, acts, groups)))
    weight = orders * likely[chosen].prod(axis=1)
    totals = np.zeros(len(acts))
    np.add.at(totals, chosen, weight[:, None] * credits[:, 1:])
    event.executed = float(weight @ credits[:, 0])
    event.unexecuted = {
        content: total / (others * chance)
        for (kind, content), total, chance in zip(acts, totals, likely, strict=True)
        if kind == ASK
    }


def _across_update(policy: TabularPolicy, credit: Credit, events: Sequence[Supervised]) -> None:
    """Executed questions alone, each as often as its probability says in a large update."""
    acts: list[Act] = [(ASK, finding) for finding in range(policy.clinic.findings)]
    single = [_group(policy, event, acts, np.array([[event.asked]])) for event in events]
    times = often([event.probability for event in events], LARGE_UPDATE)
    every = [group for group, n in zip(single, times, strict=True) for _ in range(n)]
    credits = credit_update(credit, every)
    for event, first in zip(events, np.cumsum(times) - times, strict=True):
        event.executed = float(credits[first][0][0])


def _group(
    policy: TabularPolicy, event: Supervised, acts: Sequence[Act], groups: np.ndarray
) -> Group:
    """All that a credit of questions can read, of rows of acts at one state."""
    clinic, (patient, state) = policy.clinic, (event.patient, event.state)
    belief = clinic.posterior(state)
    known = []
    for kind, content in acts:
        if kind == ANSWER:
            right = float(content == patient.option)
            known.append((belief[patient.option], right, float((belief**2).sum())))
            continue
        later = (*state, (content, patient.findings[content]))
        chance = clinic.present[content]
        new = content not in dict(state)
        answers = np.array([chance, 1 - chance]) if new else np.ones((1, clinic.options))
        expected = expected_probability(belief, answers)
        utility = clinic.posterior(later)[patient.option]
        known.append((utility, policy.value(patient, later), expected))
    utilities, continued, expected = np.array(known).T
    return Group(
        utilities=list(utilities[groups]),
        baselines=[belief[patient.option]] * len(groups),
        continued=list(continued[groups]),
        expected=list(expected[groups]),
    )
