"""Credits of single turns: GRPO's, and published ones.

What a source leaves to a hand-made reward or to a learned critic is told at its function. b_{i,t}
is the belief before turn t of consultation i, R_i its reward, T_i its number of turns.
"""

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from turn_credit.arithmetic import leave_one_out, standardise, terminal_advantages
from turn_credit.group import Group, Ragged
from turn_credit.registry import credit
from turn_credit.returns import at_each_turn, population_z, to_go

TINIEST = 1e-12  # a belief of which the logarithm is taken is at least this
STILL = 1e-8  # TIPS' release takes a smaller change of the potential for none


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


@credit("Reward to go", "turns")
def reward_to_go(group: Group, discount: float = 1.0) -> Ragged:
    """Rewards of turns to go, less the mean of the others that had the turn (verl #7244).

    The baseline of a turn is known before the turn and reads other consultations alone, so the
    policy gradient of the expected sum is unbiased, also where the policy decides when to stop. A
    mean at each later turn, as in `mt_grpo`, is taken off only where that turn takes place, which
    pushes towards stopping. Where no other consultation has the turn, nothing is subtracted.

    Args:
        group: with rewards of turns, the outcome's in the last one.
        discount: γ.

    Formula: A_t = G_t − mean_{j≠i, T_j>t} G_{j,t}, G_t = Σ_{k≥t} γ^{k−t} r_k
    Needs: turn_rewards: of each turn, from the environment; 0 where it gives none
    Costs: nothing more
    Bias: none; a turn that few others have is compared with few
    Source: ours, for verl #7244; src/credit_lab/audit/stopping.md
    """
    credits = [to_go(row, discount) for row in group.read("turn_rewards")]
    return at_each_turn(credits, lambda v: leave_one_out(v) if len(v) > 1 else v)


@credit("IGPO", "turns")
def igpo(
    group: Group, discount: float = 1.0, logarithm: bool = False, skip_zeros: bool = False
) -> Ragged:
    """Information gains and outcomes, each normalised within the case, as return to go (IGPO).

    r_{i,t} = b_{i,t+1} − b_{i,t}, normalised over all turns but the last of all consultations; the
    last turn has R_i, normalised over consultations; both with the population's deviation. In the
    source the policy itself gives the belief. The release, whose authors' commits a fork keeps,
    normalises so where it trains (`separate`, discount 1).

    Args:
        group: with beliefs.
        discount: γ.
        logarithm: differences are of log b, as the release trains.
        skip_zeros: gains of exactly zero are no part of mean and deviation and stay zero, as in the
            release's advantage. Its reward turns them to 1e-10 before, so that they are a part.

    Formula: A_t = Σ_{k≥t} γ^{k−t} z(b_{k+1} − b_k) + γ^{T−1−t} z(R)
    Needs: beliefs: the policy's own, and the label
    Costs: a reading per turn by the actor
    Bias: can oppose the policy gradient of questions; pushes towards asking at some policies,
        towards stopping at others
    Source: Wang et al. 2025 (arXiv 2510.14967), release GuoqingWang1/IGPO 745078b
    """
    read = _log if logarithm else np.asarray
    rows = [np.diff(read(belief)) for belief in group.read("beliefs")]
    flat = np.concatenate(rows)
    counted = flat != 0 if skip_zeros else np.ones(len(flat), bool)
    flat[counted] = population_z(flat[counted])
    gains = np.split(flat, np.cumsum([len(row) for row in rows])[:-1])
    outcomes = population_z(np.asarray(group.rewards, np.float64))
    return [to_go(np.append(g, o), discount) for g, o in zip(gains, outcomes, strict=True)]


@credit("TIPS", "turns")
def tips(
    group: Group, size: float = 0.11, discount: float = 1.0, scale: float | None = None
) -> Ragged:
    """Rewards shaped by a potential, as return to go less the mean at the same turn (TIPS).

    F_{i,t} = c (γ Φ_{i,t+1} − Φ_{i,t}), where Φ is the log of a frozen model's belief, zero after
    the end, and c gives the |change of Φ| the mean `size`; the last turn has R_i beside. The mean
    over the case's consultations at turn t stands for the source's critic, which is not learned
    here. Undiscounted, the sum is R_i − c Φ_{i,t}: what a question adds to the potential is paid
    back, so that shaping changes no best policy.

    Args:
        group: with beliefs.
        size: mean |change of Φ| after scaling.
        discount: γ.
        scale: c, where it is not the case's own: the release's is `tips_scale` of the batch.

    Formula: A_t = Σ_{k≥t} γ^{k−t} (F_k + R at the end) − mean at turn t
    Needs: beliefs: a frozen scorer's, and the label; a critic in the source
    Costs: a reading per turn
    Bias: none in questions; pushes a little towards asking or stopping
    Source: Xie et al. 2026 (arXiv 2603.22293), release ucsd-wang-lab-lm/tips c8687e3
    """
    potentials = [_log(belief) for belief in group.read("beliefs")]
    if scale is None:
        changes = np.abs(np.concatenate([np.diff(p) for p in potentials]))
        scale = size / changes.mean() if changes.any() else 0.0
    credits = []
    for phi, reward in zip(potentials, np.asarray(group.rewards, np.float64), strict=True):
        shaped = scale * (discount * np.append(phi[1:], 0.0) - phi)
        shaped[-1:] += reward
        credits.append(to_go(shaped, discount))
    return at_each_turn(credits, lambda values: values - values.mean())


def tips_scale(groups: Sequence[Group], size: float = 0.11) -> float:
    """The c of TIPS' release: the batch's non-zero |changes of Φ| get the mean `size`."""
    rows = [np.diff(_log(belief)) for group in groups for belief in group.read("beliefs")]
    changes = np.abs(np.concatenate(rows))
    changes = changes[changes > STILL]
    return float(size / changes.mean()) if len(changes) else 0.0


@credit("VinePPO", "turns", scope="update")
def vineppo(group: Group) -> Ragged:
    """Change of the Monte-Carlo value over a turn, standardised across the update (VinePPO).

    After the last turn the value is R_i. The release whitens over the tokens of a micro-batch, this
    over turns, both with the sample deviation. A value that is not known is NaN, and the credits
    that need it are too.

    Formula: A_t = z(V(s_{t+1}) − V(s_t)) over the update
    Needs: values: consultations played on from each state
    Costs: n consultations per turn
    Bias: none, up to the length of the step
    Source: Kazemnejad et al. 2024 (arXiv 2410.01679), release McGill-NLP/VinePPO efe7228
    """
    values, rewards = group.read("values"), np.asarray(group.rewards, np.float64)
    rows = [np.diff(np.append(v, r)) for v, r in zip(values, rewards, strict=True)]
    changes = np.concatenate(rows)
    known = ~np.isnan(changes)
    changes[known] = standardise(changes[known])
    return np.split(changes, np.cumsum([len(row) for row in rows])[:-1])


@credit("GiGPO", "turns")
def gigpo(
    group: Group,
    weight: float = 1.0,
    discount: float = 0.95,
    over_turns: bool = False,
    divide: bool = True,
) -> Ragged:
    """Advantage of the consultation plus that among the turns at the same state (GiGPO).

    A^S standardises the discounted returns γ^(T_i − 1 − t) R_i of all turns, in all consultations
    of the case, that start at one state; a turn at a state that no other has gets A^S = 0.

    Args:
        group: with states.
        weight: ω.
        discount: γ.
        over_turns: mean and deviation of R count a consultation once for each of its turns, as in
            the release.
        divide: by the deviation, the release's mode `mean_std_norm`; its default, `mean_norm`,
            subtracts the mean alone.

    Formula: A_t = z(R) + ω z(γ^{T−1−t} R) over turns at the same state
    Needs: states that repeat
    Costs: nothing more
    Bias: its discount pushes towards stopping, at some policies against the gradient
    Source: Feng et al. 2025 (arXiv 2505.10978), release langfengQ/verl-agent 20bd331
    """
    rewards, states = np.asarray(group.rewards, np.float64), group.given("states")
    returns = [
        r * discount ** np.arange(len(s))[::-1] for s, r in zip(states, rewards, strict=True)
    ]
    if over_turns:
        lengths = [len(s) for s in states]
        flat = _compared(np.repeat(rewards, lengths), divide)
        credits = np.split(flat, np.cumsum(lengths)[:-1])
    else:
        scores = _compared(rewards, divide)
        credits = [np.full(len(s), a) for s, a in zip(states, scores, strict=True)]
    for places in _places(states).values():
        steps = _compared([returns[i][t] for i, t in places], divide)
        for (i, t), step in zip(places, steps, strict=True):
            credits[i][t] += weight * step
    return credits


def share_alone(group: Group) -> float:
    """Share of the turns at a state that no other turn has, which GiGPO cannot compare."""
    places = _places(group.given("states")).values()
    return sum(len(p) == 1 for p in places) / max(sum(map(len, places)), 1)


@credit("MT-GRPO", "turns")
def mt_grpo(group: Group, discount: float = 1.0, epsilon: float | None = None) -> Ragged:
    """Turn rewards and outcomes, each normalised within the case (MT-GRPO).

    The turn rewards are those of the group, where it has `turn_rewards` and R is the outcome
    alone; else b_{i,t+1} − b_{i,t}, which is ours. z of them is over the consultations for which t
    is not the last turn.

    Args:
        group: with beliefs, or with rewards of turns.
        discount: γ.
        epsilon: beside the deviation, which is then compared with no threshold. The release has
            1e-4, for consultations of two turns.

    Formula: A_t = Σ_{t≤k<T−1} γ^{k−t} z_k(b_{k+1} − b_k) + γ^{T−1−t} z(R)
    Needs: beliefs: a turn reward, here a frozen scorer's gain, and the label; or turn_rewards
    Costs: a reading per turn
    Bias: can oppose the policy gradient of questions
    Source: Zeng et al. 2025 (arXiv 2505.11821), second version, for more than two turns; release
        SiliangZeng/Multi-Turn-RL-Agent 7dbdd08 for two
    """
    if group.has("turn_rewards"):
        gains = [row[:-1].copy() for row in group.read("turn_rewards")]
    else:
        gains = [np.diff(belief) for belief in group.read("beliefs")]
    gains = at_each_turn(gains, lambda values: _sample_z(values, epsilon))
    outcomes = _sample_z(group.rewards, epsilon)
    return [to_go(np.append(g, o), discount) for g, o in zip(gains, outcomes, strict=True)]


def _log(belief: np.ndarray) -> np.ndarray:
    return np.log(np.maximum(belief, TINIEST))


def _compared(values: ArrayLike, divide: bool) -> np.ndarray:
    """`standardise`, or less the mean alone."""
    x = np.asarray(values, np.float64)
    return standardise(x) if divide else x - x.mean()


def _sample_z(values: ArrayLike, epsilon: float | None) -> np.ndarray:
    """`standardise`, or with an epsilon of one's own and no threshold."""
    if epsilon is None or len(x := np.asarray(values, np.float64)) < 2:
        return standardise(values)
    return (x - x.mean()) / (x.std(ddof=1) + epsilon)


def _places(states: Sequence[Sequence[Hashable]]) -> dict[Hashable, list[tuple[int, int]]]:
    """State -> (consultation, turn) of every turn at it."""
    places: dict[Hashable, list[tuple[int, int]]] = {}
    for i, row in enumerate(states):
        for t, state in enumerate(row):
            places.setdefault(state, []).append((i, t))
    return places
