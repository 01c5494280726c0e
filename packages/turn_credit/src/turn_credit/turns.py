"""Credits of single turns: GRPO's, and published ones.

What a source leaves to a hand-made reward or to a learned critic is told at its function. b_{i,t}
is the belief before turn t of consultation i, R_i its reward, T_i its number of turns.
"""

from collections.abc import Hashable, Sequence

import numpy as np

from turn_credit.arithmetic import EPSILON, standardise, terminal_advantages
from turn_credit.group import Group, Ragged
from turn_credit.registry import credit

TINIEST = 1e-12  # a belief of which the logarithm is taken is at least this


@credit("GRPO", "turns")
def grpo(group: Group) -> Ragged:
    """All turns of a consultation with its reward, compared within the group (GRPO).

    Formula: A_{i,t} = (R_i − mean) / (sd + 1e-6); 0 where sd < 1e-4
    Needs: rewards
    Costs: nothing more
    Bias: division by sd weighs cases of which nearly none or nearly all succeed more; undivided
        it has none
    Source: Shao et al. 2024 (arXiv 2402.03300)
    """
    scores = terminal_advantages(group.rewards)
    return [np.full(length, a) for length, a in zip(group.lengths, scores, strict=True)]


@credit("IGPO", "turns")
def igpo(group: Group, discount: float = 1.0) -> Ragged:
    """Information gains and outcomes, each normalised within the case, as return to go (IGPO).

    r_{i,t} = b_{i,t+1} − b_{i,t}, normalised over all turns but the last of all consultations; the
    last turn has R_i, normalised over consultations; both with the population's deviation. In the
    source the policy itself gives the belief. Its release trains so (`separate`, discount 1, with
    differences of probabilities).

    Formula: A_t = Σ_{k≥t} γ^{k−t} z(b_{k+1} − b_k) + γ^{T−1−t} z(R)
    Needs: beliefs: the policy's own, and the label
    Costs: a reading per turn by the actor
    Bias: can oppose the policy gradient of questions; pushes towards asking at some policies,
        towards stopping at others
    Source: Wang et al. 2025 (arXiv 2510.14967)
    """
    gains = [np.diff(belief) for belief in group.read("beliefs")]
    flat = _z(np.concatenate(gains))
    gains = np.split(flat, np.cumsum([len(gain) for gain in gains])[:-1])
    outcomes = _z(np.asarray(group.rewards, np.float64))
    return [_to_go(np.append(g, o), discount) for g, o in zip(gains, outcomes, strict=True)]


@credit("TIPS", "turns")
def tips(group: Group, size: float = 0.11, discount: float = 1.0) -> Ragged:
    """Rewards shaped by a potential, as return to go less the mean at the same turn (TIPS).

    F_{i,t} = c (γ Φ_{i,t+1} − Φ_{i,t}), where Φ is the log of a frozen model's belief, zero after
    the end, and c gives the |change of Φ| the mean `size`; the last turn has R_i beside. The mean
    over the case's consultations at turn t stands for the source's critic, which is not learned
    here. Undiscounted, the sum is R_i − c Φ_{i,t}: what a question adds to the potential is paid
    back, so that shaping changes no best policy.

    Formula: A_t = Σ_{k≥t} γ^{k−t} (F_k + R at the end) − mean at turn t
    Needs: beliefs: a frozen scorer's, and the label; a critic in the source
    Costs: a reading per turn
    Bias: none in questions; pushes a little towards asking or stopping
    Source: Xie et al. 2026 (arXiv 2603.22293)
    """
    potentials = [np.log(np.maximum(belief, TINIEST)) for belief in group.read("beliefs")]
    changes = np.abs(np.concatenate([np.diff(p) for p in potentials]))
    scale = size / changes.mean() if changes.any() else 0.0
    credits = []
    for phi, reward in zip(potentials, np.asarray(group.rewards, np.float64), strict=True):
        shaped = scale * (discount * np.append(phi[1:], 0.0) - phi)
        shaped[-1:] += reward
        credits.append(_to_go(shaped, discount))
    return _less_mean_of_turn(credits)


@credit("VinePPO", "turns", scope="update")
def vineppo(group: Group) -> Ragged:
    """Change of the Monte-Carlo value over a turn, standardised across the update (VinePPO).

    After the last turn the value is R_i. The release whitens over tokens, this over turns. A value
    that is not known is NaN, and the credits that need it are too.

    Formula: A_t = z(V(s_{t+1}) − V(s_t)) over the update
    Needs: values: consultations played on from each state
    Costs: n consultations per turn
    Bias: none, up to the length of the step
    Source: Kazemnejad et al. 2024 (arXiv 2410.01679), release efe7228
    """
    values, rewards = group.read("values"), np.asarray(group.rewards, np.float64)
    rows = [np.diff(np.append(v, r)) for v, r in zip(values, rewards, strict=True)]
    changes = np.concatenate(rows)
    known = ~np.isnan(changes)
    changes[known] = standardise(changes[known])
    return np.split(changes, np.cumsum([len(row) for row in rows])[:-1])


@credit("GiGPO", "turns")
def gigpo(group: Group, weight: float = 1.0, discount: float = 0.95) -> Ragged:
    """Advantage of the consultation plus that among the turns at the same state (GiGPO).

    A^S standardises the discounted returns γ^(T_i − 1 − t) R_i of all turns, in all consultations
    of the case, that start at one state; a turn at a state that no other has gets A^S = 0.

    Formula: A_t = z(R) + ω z(γ^{T−1−t} R) over turns at the same state
    Needs: states that repeat
    Costs: nothing more
    Bias: its discount pushes towards stopping, at some policies against the gradient
    Source: Feng et al. 2025 (arXiv 2505.10978)
    """
    rewards, states = np.asarray(group.rewards, np.float64), group.given("states")
    returns = [
        r * discount ** np.arange(len(s))[::-1] for s, r in zip(states, rewards, strict=True)
    ]
    credits = [np.full(len(s), a) for s, a in zip(states, standardise(rewards), strict=True)]
    for places in _places(states).values():
        steps = standardise([returns[i][t] for i, t in places])
        for (i, t), step in zip(places, steps, strict=True):
            credits[i][t] += weight * step
    return credits


def share_alone(group: Group) -> float:
    """Share of the turns at a state that no other turn has, which GiGPO cannot compare."""
    places = _places(group.given("states")).values()
    return sum(len(p) == 1 for p in places) / max(sum(map(len, places)), 1)


@credit("MT-GRPO", "turns")
def mt_grpo(group: Group, discount: float = 1.0) -> Ragged:
    """Turn rewards and outcomes, each normalised within the case (MT-GRPO).

    The turn reward b_{i,t+1} − b_{i,t} is ours. z of it is over the consultations for which t is
    not the last turn.

    Formula: A_t = Σ_{t≤k<T−1} γ^{k−t} z_k(b_{k+1} − b_k) + γ^{T−1−t} z(R)
    Needs: beliefs: a turn reward, here a frozen scorer's gain, and the label
    Costs: a reading per turn
    Bias: can oppose the policy gradient of questions
    Source: Zeng et al. 2025 (arXiv 2505.11821), second version, for more than two turns
    """
    gains = [np.diff(belief) for belief in group.read("beliefs")]
    for t in range(max(map(len, gains), default=0)):
        longer = [gain for gain in gains if len(gain) > t]
        for gain, z in zip(longer, standardise([gain[t] for gain in longer]), strict=True):
            gain[t] = z
    outcomes = terminal_advantages(group.rewards)
    return [_to_go(np.append(g, o), discount) for g, o in zip(gains, outcomes, strict=True)]


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


def _less_mean_of_turn(rows: Ragged) -> Ragged:
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
