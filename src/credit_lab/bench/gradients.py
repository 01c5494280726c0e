"""A credit's expected gradient in the audit's tiny clinic, beside the exact policy gradient."""

from collections.abc import Sequence
from functools import cache
from typing import get_args

import numpy as np

from credit_lab.audit.gradients import question_term, terminal_gradient
from credit_lab.audit.question_credits import (
    Reading,
    Supervised,
    baseline,
    candidates_at,
    supervised_states,
    worth,
)
from credit_lab.audit.table import cosine, policies
from credit_lab.audit.tabular import ASK, CLINIC, Act, TabularPolicy, exact_gradient
from credit_lab.audit.turn_credits import (
    LARGE_UPDATE,
    across_update,
    group_credits,
    multisets,
    often,
)
from credit_lab.parts import Parts
from turn_credit import Credit, Group, credit_update

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
    by_part: dict[str, list[float]] = {"question": [], "choice": []}
    for policy, exact in _policies():
        if credit.of == "questions":
            events = _credited(policy, credit)
            own = question_term(policy, events, 1 if alone else CANDIDATES)
        elif "values" in reads:
            own = terminal_gradient(policy, across_update(policy, credit))
        else:
            read = policy if reader == "actor" else None
            credits = group_credits(policy, credit, CONSULTATIONS, read)
            own = terminal_gradient(policy, credits)
        for part, values in by_part.items():
            value = cosine(getattr(own, part), getattr(exact, part))
            if not np.isnan(value):
                values.append(value)
    return by_part


@cache
def _policies() -> list[tuple[TabularPolicy, Parts]]:
    """Those of the audit, each with its exact gradient."""
    return [(policy, exact_gradient(policy)) for policy in policies(CLINIC).values()]


def _credited(policy: TabularPolicy, credit: Credit) -> list[Supervised]:
    """Every supervised state, with the expected credits of its candidates."""
    events = supervised_states(policy)
    if credit.scope == "update":
        _across_update(policy, credit, events)
    else:
        for event in events:
            _within(policy, credit, event)
    return events


def _within(policy: TabularPolicy, credit: Credit, event: Supervised) -> None:
    """Average the credits over all groups of candidates, given the executed question."""
    others, candidates = CANDIDATES - 1, candidates_at(policy, event.state)
    chosen, orders = multisets(len(candidates.acts), others)
    groups = np.column_stack([np.full(len(chosen), event.asked), chosen])
    credits = np.array(credit(_group(policy, event, candidates.acts, groups)))
    weight = orders * candidates.likely[chosen].prod(axis=1)
    totals = np.zeros(len(candidates.acts))
    np.add.at(totals, chosen, weight[:, None] * credits[:, 1:])
    event.average(candidates, others, float(weight @ credits[:, 0]), totals)


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
    known = {
        reading: np.array([worth(policy, event, act, reading) for act in acts])
        for reading in get_args(Reading)
    }
    return Group(
        baselines=[baseline(policy, event, "utilities")] * len(groups),
        **{reading: list(values[groups]) for reading, values in known.items()},
    )
