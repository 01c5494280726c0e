"""Published credits of turns and questions, beside the paper's in `credit.py`: numbers in and out.

What a source leaves to a hand-made reward or to a learned critic is said at its function.

Each is compared with PCQC in docs/credits.md. One case has G consultations; the i-th has T_i turns,
from 0, of which the last ends it. R_i is its reward. b_{i,t} is a belief: the probability of the
correct option before turn t.
"""

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from pcqc.methods.credit import EPSILON, standardise, terminal_advantages

Turns = list[np.ndarray]  # per consultation, float64 [T_i]


def igpo(beliefs: Sequence[np.ndarray], rewards: ArrayLike, discount: float = 1.0) -> Turns:
    """Information gains and outcomes, each normalised within the case, as return to go (IGPO).

    r_{i,t} = b_{i,t+1} - b_{i,t}, normalised over all turns but the last of all consultations; the
    last turn has R_i, normalised over consultations; both with the population's deviation.
    A_{i,t} = sum_{k >= t} discount^(k-t) r_{i,k}.

    Source: Wang et al. 2025, "Information Gain-based Policy Optimization" (arXiv 2510.14967), as
    its release trains (`separate`, discount 1), with differences of probabilities.

    Args:
        beliefs: float [T_i] of each consultation, by the policy itself in the source.
        rewards: float [G].
        discount: gamma.
    """
    gains = [np.diff(belief) for belief in beliefs]
    flat = _z(np.concatenate(gains))
    gains = np.split(flat, np.cumsum([len(gain) for gain in gains])[:-1])
    outcomes = _z(np.asarray(rewards, np.float64))
    return [_to_go(np.append(g, o), discount) for g, o in zip(gains, outcomes, strict=True)]


def tips(
    potentials: Sequence[np.ndarray], rewards: ArrayLike, size: float = 0.11, discount: float = 1.0
) -> Turns:
    """Rewards shaped by a potential, as return to go less the mean at the same turn (TIPS).

    F_{i,t} = c (discount * Phi_{i,t+1} - Phi_{i,t}), where Phi is the log of a frozen model's
    probability of the correct option, zero after the end, and c gives the |change of Phi| the mean
    `size`; the last turn has R_i beside. The mean over the case's consultations at turn t stands
    for the source's critic, which is not learned here. Undiscounted, the sum is R_i - c Phi_{i,t}:
    what a question adds to the potential is paid back, so that shaping changes no best policy.

    Source: Xie et al. 2026, "TIPS" (arXiv 2603.22293).

    Args:
        potentials: float [T_i], Phi before each turn.
        rewards: float [G].
        size: mean |c * change of Phi| over the case's turns.
        discount: gamma.
    """
    changes = np.abs(np.concatenate([np.diff(p) for p in potentials]))
    scale = size / changes.mean() if changes.any() else 0.0
    credits = []
    for phi, reward in zip(potentials, np.asarray(rewards, np.float64), strict=True):
        shaped = scale * (discount * np.append(phi[1:], 0.0) - phi)
        shaped[-1:] += reward
        credits.append(_to_go(shaped, discount))
    return _less_mean_of_turn(credits)


def vineppo(values: Sequence[np.ndarray], rewards: ArrayLike) -> Turns:
    """Change of the Monte-Carlo value over a turn, standardised across the update (VinePPO).

    A_{i,t} = V(s_{i,t+1}) - V(s_{i,t}), where V is the mean reward of consultations that are played
    on from a state, and R_i after the last turn. The release whitens over tokens, this over turns.

    Source: Kazemnejad et al. 2024, "VinePPO" (arXiv 2410.01679).

    Args:
        values: float [T_i], V before each turn, of all consultations of an update; NaN where it is
            not known, and then the credits that need it are too.
        rewards: float [consultations].
    """
    rows = [np.diff(np.append(v, r)) for v, r in zip(values, np.asarray(rewards), strict=True)]
    changes = np.concatenate(rows)
    known = ~np.isnan(changes)
    changes[known] = standardise(changes[known])
    return np.split(changes, np.cumsum([len(row) for row in rows])[:-1])


def gigpo(
    states: Sequence[Sequence[Hashable]],
    rewards: ArrayLike,
    weight: float = 1.0,
    discount: float = 0.95,
) -> Turns:
    """Advantage of the consultation plus that among the turns at the same state (GiGPO).

    A_{i,t} = (R_i - mean) / sd + weight * A^S, where A^S standardises the discounted returns
    discount^(T_i - 1 - t) R_i of all turns, in all consultations of the case, that start at one
    state; a turn at a state that no other has gets A^S = 0.

    Source: Feng et al. 2025, "Group-in-Group Policy Optimization" (arXiv 2505.10978).

    Args:
        states: what identifies the state before each turn.
        rewards: float [G].
        weight: omega.
        discount: gamma.
    """
    rewards = np.asarray(rewards, np.float64)
    returns = [
        r * discount ** np.arange(len(s))[::-1] for s, r in zip(states, rewards, strict=True)
    ]
    credits = [np.full(len(s), a) for s, a in zip(states, standardise(rewards), strict=True)]
    for places in _places(states).values():
        steps = standardise([returns[i][t] for i, t in places])
        for (i, t), step in zip(places, steps, strict=True):
            credits[i][t] += weight * step
    return credits


def share_alone(states: Sequence[Sequence[Hashable]]) -> float:
    """Share of the turns at a state that no other turn has, which GiGPO cannot compare."""
    places = _places(states).values()
    return sum(len(p) == 1 for p in places) / max(sum(map(len, places)), 1)


def mt_grpo(beliefs: Sequence[np.ndarray], rewards: ArrayLike, discount: float = 1.0) -> Turns:
    """Turn rewards and outcomes, each normalised within the case (MT-GRPO).

    z_{i,t} = r_{i,t} standardised over the consultations for which t is not the last turn, with the
    turn reward r_{i,t} = b_{i,t+1} - b_{i,t}, ours; z_i likewise of R_i.
    A_{i,t} = sum_{t <= k < T_i - 1} discount^(k-t) z_{i,k} + discount^(T_i-1-t) z_i.

    Source: Zeng et al. 2025, "Reinforcing Multi-Turn Reasoning in LLM Agents" (arXiv 2505.11821),
    its second version for more than two turns.

    Args:
        beliefs: float [T_i] of each consultation.
        rewards: float [G].
        discount: alpha.
    """
    gains = [np.diff(belief) for belief in beliefs]
    for t in range(max(map(len, gains), default=0)):
        longer = [gain for gain in gains if len(gain) > t]
        for gain, z in zip(longer, standardise([gain[t] for gain in longer]), strict=True):
            gain[t] = z
    outcomes = terminal_advantages(np.asarray(rewards, np.float64))
    return [_to_go(np.append(g, o), discount) for g, o in zip(gains, outcomes, strict=True)]


def leave_one_out(values: ArrayLike) -> np.ndarray:
    """Value of each alternative less the mean of the others (C3).

    A_k = V_k - mean_{j != k} V_j, where V is the mean reward of consultations that go on from the
    alternative. The release then divides by the group's deviation, and its default subtracts a
    critic's values; neither is done here.

    Source: Chen et al. 2026, "Contextual Counterfactual Credit Assignment" (arXiv 2603.06859).

    Args:
        values: float [K] of the alternatives at one state.

    Returns:
        float64 [K]; zeros for a single one.
    """
    v = np.asarray(values, np.float64)
    return np.zeros_like(v) if len(v) < 2 else (v - v.mean()) * len(v) / (len(v) - 1)


def expected_probability(belief: ArrayLike, answers: ArrayLike) -> float:
    """The correct option's probability after a question, averaged over the answers it might get.

    U = sum_y b(y) sum_a P(a | y) b(y | a), with Bayes' b(y | a). Ours; the realised utility is the
    term of the one answer that was given. The average of b(y*) alone, with answers drawn from the
    belief, would be b(y*) before the question, whatever is asked.

    Args:
        belief: float [options], b(y).
        answers: float [answers, options], P(a | y).
    """
    joint = np.asarray(answers, np.float64) * np.asarray(belief, np.float64)
    likely = joint.sum(axis=1, keepdims=True)  # P(a)
    return float((joint**2 / np.where(likely > 0, likely, 1)).sum())


def _to_go(rewards: np.ndarray, discount: float) -> np.ndarray:
    """sum_{k >= t} discount^(k-t) r_k of every turn t."""
    returns, total = np.zeros(len(rewards)), 0.0
    for t in reversed(range(len(rewards))):
        total = rewards[t] + discount * total
        returns[t] = total
    return returns


def _z(values: np.ndarray) -> np.ndarray:
    """(x - mean) / (sd + 1e-6) with the population's deviation; zeros for fewer than two values."""
    if len(values) < 2:
        return np.zeros_like(values)
    return (values - values.mean()) / (values.std() + EPSILON)


def _less_mean_of_turn(rows: Turns) -> Turns:
    """Each turn less the mean over all consultations that have it."""
    for t in range(max(map(len, rows), default=0)):
        mean = np.mean([row[t] for row in rows if len(row) > t])
        for row in rows:
            row[t : t + 1] -= mean
    return rows


def _places(states: Sequence[Sequence[Hashable]]) -> dict[Hashable, list[tuple[int, int]]]:
    """State -> (consultation, turn) of every turn at it."""
    places: dict[Hashable, list[tuple[int, int]]] = {}
    for i, row in enumerate(states):
        for t, state in enumerate(row):
            places.setdefault(state, []).append((i, t))
    return places
