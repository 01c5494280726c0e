"""A credit's expected gradient in the audit's tiny clinic, beside the exact policy gradient."""

from collections.abc import Sequence
from functools import cache
from itertools import product

import numpy as np

from credit_lab.audit.gradients import terminal_gradient
from credit_lab.audit.question_credits import Supervised
from credit_lab.audit.table import cosine, policies
from credit_lab.audit.tabular import (
    ANSWER,
    ASK,
    CLINIC,
    Act,
    TabularPolicy,
    after,
    exact_gradient,
)
from credit_lab.audit.turn_credits import (
    LARGE_UPDATE,
    across_update,
    group_credits,
    multisets,
    often,
)
from credit_lab.parts import Parts
from turn_credit import Credit, Group, credit_update
from turn_credit.arithmetic import expected_probability

CONSULTATIONS, CANDIDATES = 3, 4  # of a group, of a state


def cosines(credit: Credit, reads: set[str], reader: str, alone: bool) -> dict[str, list[float]]:
    """Cosine with the exact gradient: of the question part, and of the choice to ask or answer.

    Args:
        credit: to judge.
        reads: fields of `Group` that it reads.
        reader: whose beliefs, `scorer` (the exact posterior) or `actor`.
        alone: whether it leaves all candidates but the executed one without credit.

    Returns:
        `question` and `choice` -> a cosine for each policy at which both gradients are something.
    """
    found: dict[str, list[float]] = {"question": [], "choice": []}
    for policy, exact in _policies():
        if credit.of == "questions":
            own = _question_gradient(policy, credit, alone)
        elif "values" in reads:
            own = terminal_gradient(policy, across_update(policy, credit))
        else:
            read = policy if reader == "actor" else None
            credits = group_credits(policy, credit, CONSULTATIONS, read)
            own = terminal_gradient(policy, credits)
        for part, values in found.items():
            value = cosine(getattr(own, part), getattr(exact, part))
            if not np.isnan(value):
                values.append(value)
    return found


@cache
def _policies() -> list[tuple[TabularPolicy, Parts]]:
    """Those of the audit, each with its exact gradient."""
    return [(policy, exact_gradient(policy)) for policy in policies(CLINIC).values()]


def _question_gradient(policy: TabularPolicy, credit: Credit, alone: bool) -> Parts:
    """Of the question term alone (eq:question_objective); see `audit.gradients`."""
    clinic = policy.clinic
    weights, events = clinic.zeros(), _events(policy)
    if credit.scope == "update":
        _across_update(policy, credit, events)
    else:
        for event in events:
            _within(policy, credit, event)
    for event in events:
        number = clinic.states[event.state]
        weights.question[number, event.asked] += event.probability * event.executed
        for finding, value in {} if alone else event.unexecuted.items():
            times = (CANDIDATES - 1) * policy.probability(event.state, (ASK, finding))
            weights.question[number, finding] += event.probability * times * value
    return policy.gradient(weights)


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


def _within(policy: TabularPolicy, credit: Credit, event: Supervised) -> None:
    """Average the credits over all groups of candidates, given the executed question."""
    clinic, others = policy.clinic, CANDIDATES - 1
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
