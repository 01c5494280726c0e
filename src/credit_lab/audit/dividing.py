"""What the gains within a state are divided by, and which objective's gradient that leaves.

`dividing.md` beside this derives it. Here are the numbers, exact in the tiny clinic. The objective
is the expected utility of the questions at the states that the sampling policy visits,
J = sum_s d(s) E[u(s, q)], with d held fixed.
"""

from functools import partial

import numpy as np

from credit_lab.audit.gradients import CANDIDATES, question_gradient, supervised_events
from credit_lab.audit.tabular import TabularPolicy
from credit_lab.parts import Parts
from turn_credit import Credit, Group, Ragged
from turn_credit.arithmetic import Divisor, same_state_credit

DIVISORS: tuple[Divisor, ...] = ("group", "none", "update", "shrunk")


def utility_gradient(policy: TabularPolicy) -> Parts:
    """Gradient of J, divided by the question term's expected number of tokens.

    No baseline: the sum of E[u grad log pi] over all candidates.
    """
    return question_gradient(policy, _credit(lambda group: group.read("utilities")), False)


def divided_gradient(policy: TabularPolicy, divide: Divisor) -> Parts:
    """Expected gradient of the question term in a large update, with no threshold."""
    pooled = mean_variance(policy)
    credit = _credit(partial(_divided, divide=divide, pooled=pooled))
    return question_gradient(policy, credit, False)


def mean_variance(policy: TabularPolicy) -> float:
    """Mean over all groups of the variance of their utilities, as a large update pools it."""
    events = supervised_events(policy, _credit(_variances), CANDIDATES)
    total = sum(event.probability for event in events)
    return sum(event.probability * event.executed for event in events) / total


def _divided(group: Group, divide: Divisor, pooled: float) -> Ragged:
    return [same_state_credit(row, divide, 0.0, pooled) for row in group.read("utilities")]


def _variances(group: Group) -> Ragged:
    return [np.full(len(row), row.var(ddof=1)) for row in group.read("utilities")]


def _credit(function) -> Credit:
    return Credit("divided", "Divided", "questions", "group", function)
