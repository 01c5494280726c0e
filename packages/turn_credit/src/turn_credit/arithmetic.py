"""The arithmetic of credit (sec:method:credit): pure functions of numbers."""

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from turn_credit.tensors import plain

THRESHOLD = 1e-4  # tau
EPSILON = 1e-6  # epsilon_norm
LOG_ROUNDING = 1e-2  # bfloat16 keeps three digits
SMALL_SPREAD = 0.01  # of utilities that differ by hardly more than chance in the wording

# What the gains of a state are divided by; `same_state_credit` explains each.
Divisor = Literal["group", "none", "update", "shrunk"]


def standardise(values: ArrayLike, threshold: float = THRESHOLD) -> np.ndarray:
    """(x - mean) / (sd + EPSILON), or zeros where sd < threshold (eq:group_credit).

    Args:
        values: float [n]; their sample standard deviation divides by n - 1.
        threshold: tau.

    Returns:
        float64 [n]; zeros for fewer than two values.
    """
    x = np.asarray(values, np.float64)
    if len(x) < 2:
        return np.zeros_like(x)
    deviation = x.std(ddof=1)
    if deviation < threshold:
        return np.zeros_like(x)
    return (x - x.mean()) / (deviation + EPSILON)


def terminal_advantages(rewards: ArrayLike) -> np.ndarray:
    """Group-relative advantage of each of the G_T consultations of one case (Shao et al. 2024).

    Args:
        rewards: float [G_T], 1 for a correct valid final answer, else 0.

    Returns:
        float64 [G_T]; zeros where all rewards are equal and for a single consultation.
    """
    return standardise(rewards)


def diagnostic_gain(utilities: ArrayLike, baseline: float) -> np.ndarray:
    """Delta_i = u_i - b(O_t): change of the correct option's probability (eq:diagnostic_gain)."""
    return np.asarray(utilities, np.float64) - baseline


def same_state_credit(
    gains: ArrayLike,
    divide: Divisor = "group",
    threshold: float = THRESHOLD,
    pooled: float = 0.0,
) -> np.ndarray:
    """Relative question credit A^Q of the K candidates of one state (eq:group_credit).

    Args:
        gains: float [K], diagnostic gains or utilities; a shared baseline changes nothing
            (eq:pairwise_question_credit).
        divide: by what, after their mean is subtracted. `group`: their own standard deviation, as
            in the paper. `update`: the deviation pooled over all states of an update. `shrunk`: the
            root of the sum of both variances, hardly more than the larger. `none`: nothing; times
            K / (K - 1) the gain is one over the mean of the others, unbiased for the gradient of
            the expected utility.
        threshold: tau; where their standard deviation is below it, nothing is credited.
        pooled: `pooled_variance` of the update, for `update` and `shrunk`.

    Returns:
        float64 [K]; zeros where the candidates are nearly indistinguishable.

    Raises:
        ValueError: `divide` is none of the four.
    """
    if divide not in get_args(Divisor):
        raise ValueError(f"divide '{divide}' is none of {', '.join(get_args(Divisor))}")
    if divide == "group":
        return standardise(gains, threshold)
    x = np.asarray(gains, np.float64)
    if len(x) < 2 or x.std(ddof=1) < threshold:
        return np.zeros_like(x)
    if divide == "none":
        return leave_one_out(x)
    own = x.var(ddof=1) if divide == "shrunk" else 0.0
    return (x - x.mean()) / (np.sqrt(own + pooled) + EPSILON)


def pooled_variance(states: Sequence[ArrayLike]) -> float:
    """Variance of gains around the mean of their state, pooled over an update; 0 without states."""
    rows = [np.asarray(row, np.float64) for row in states]
    freedom = sum(len(row) - 1 for row in rows)
    return sum(float(((row - row.mean()) ** 2).sum()) for row in rows) / freedom if freedom else 0.0


def executed_local_credit(
    gains: Sequence[float] | np.ndarray, threshold: float = THRESHOLD
) -> np.ndarray:
    """Credit of executed questions, standardised across an update (app:executed_local_credit).

    Args:
        gains: diagnostic gain d_e of each event, over cases and states (eq:executed_local_gain).
        threshold: tau.

    Returns:
        float64 [events]; zeros for fewer than two events or nearly equal gains.
    """
    return standardise(gains, threshold)


def small_spread_share(
    spreads: Sequence[float], credits: Sequence[ArrayLike], below: float = SMALL_SPREAD
) -> float:
    """Share of all credit that stems from states whose candidates hardly differ.

    Credit divided by the deviation within a state is as large where utilities are 0.958 and 0.955
    as where they are 0.9 and 0.1.

    Args:
        spreads: float [S], sample standard deviation of the utilities of each state.
        credits: float [K_s] of each state.
        below: a spread is small below it.

    Returns:
        Part of the sum of absolute credits, 0 to 1; 0 where nothing is credited.
    """
    sizes = np.array([np.abs(np.asarray(row, np.float64)).sum() for row in credits])
    small = np.asarray(spreads, np.float64) < below
    return float(sizes[small].sum() / sizes.sum()) if sizes.any() else 0.0


def leave_one_out(values: ArrayLike) -> np.ndarray:
    """Value of each alternative less the mean of the others.

    Args:
        values: float [K] of the alternatives at one state.

    Returns:
        float64 [K]; zeros for a single one.
    """
    v = np.asarray(values, np.float64)
    return np.zeros_like(v) if len(v) < 2 else (v - v.mean()) * len(v) / (len(v) - 1)


def expected_probability(belief: ArrayLike, answers: ArrayLike) -> float:
    """The correct option's probability after a question, averaged over the answers it might get.

    U = sum_y b(y) sum_a P(a | y) b(y | a), with Bayes' b(y | a). The realised utility is the term
    of the one answer that was given. The average of b(y*) alone, with answers drawn from the
    belief, would be b(y*) before the question, whatever is asked.

    Args:
        belief: float [options], b(y).
        answers: float [answers, options], P(a | y).
    """
    joint = np.asarray(answers, np.float64) * np.asarray(belief, np.float64)
    likely = joint.sum(axis=1, keepdims=True)  # P(a)
    return float((joint**2 / np.where(likely > 0, likely, 1)).sum())


def beliefs_of(logprobs: Sequence[ArrayLike], correct: Sequence[int] | None = None) -> list:
    """Beliefs in the correct answer, from log-probabilities.

    Args:
        logprobs: each consultation's, before each turn. With `correct`, float [T_i, options], of
            each option as the answer: the belief is its share of all options. Without, float [T_i],
            of the correct answer alone: the whole answer's, or the mean over its tokens.
        correct: index of the correct option, of each consultation.

    Returns:
        float64 [T_i] of each consultation, for `Group.beliefs`.

    Raises:
        ValueError: a log-probability is above 0 or not known, or there is no such option.
    """
    beliefs = []
    for place, given in enumerate(logprobs):
        rows = np.asarray(plain(given), np.float64)
        if rows.ndim != (1 if correct is None else 2) or not len(rows):
            raise ValueError(
                f"consultation {place} has log-probabilities of shape {rows.shape}; give [turns]"
                + ("" if correct is None else ", of each option")
            )
        # The log-probability of a sure answer is above 0 by rounding alone.
        if not (rows <= LOG_ROUNDING).all():
            turn = int(np.argwhere(~(rows <= LOG_ROUNDING))[0][0])
            raise ValueError(
                f"consultation {place}, turn {turn}: {rows[turn]} is no log-probability; give its "
                "natural logarithm, at most 0"
            )
        if correct is None:
            beliefs.append(np.exp(np.minimum(rows, 0)))
            continue
        if not 0 <= correct[place] < rows.shape[1]:
            raise ValueError(
                f"consultation {place} has {rows.shape[1]} options, and no option {correct[place]}"
            )
        best = rows.max(axis=1, keepdims=True)
        if not np.isfinite(best).all():
            raise ValueError(f"consultation {place} has a turn at which no option is possible")
        powers = np.exp(rows - best)
        beliefs.append(powers[:, correct[place]] / powers.sum(axis=1))
    return beliefs
