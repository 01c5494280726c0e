"""Published credits of turns that add a process reward to the outcome.

What a release does beyond the credit, such as a clipping range of its own for every turn, is not
here. n is the number of turns of a consultation but its last.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from turn_credit.arithmetic import EPSILON, terminal_advantages
from turn_credit.group import Group, Ragged, Row
from turn_credit.registry import credit
from turn_credit.returns import at_each_turn, population_z, to_go

FLOOR = 1e-8  # A²TGPO's release adds it to a variance
TINIEST = 1e-12  # a belief of which the logarithm is taken is at least this


@dataclass(frozen=True)
class ProcessGroup(Group):
    """A group with what process rewards are made from.

    Attributes:
        tokens: int [T_i] of each consultation, how many the actor sampled in a turn; each turn
            counts as one where not given.
        critiques: float [T_i] of each, above 0 for a turn that should be likelier, below for one
            that should be less likely; NaN or None where it is not known.
        implicit: float [T_i] of each, a turn's reward by an implicit process reward model.
        shifts: float [T_i] of each, how much likelier a turn's answer made the next response: mean
            over its tokens of their log-probability less that without the answer; 0 at the end.

    Raises:
        ValueError: see `Group`.
    """

    tokens: Sequence[Sequence[int]] | None = None
    critiques: Sequence[Row] | None = None
    implicit: Sequence[Row] | None = None
    shifts: Sequence[Row] | None = None

    OF_TURNS: ClassVar[tuple[str, ...]] = (
        *Group.OF_TURNS,
        *("tokens", "critiques", "implicit", "shifts"),
    )
    UNKNOWN: ClassVar[tuple[str, ...]] = (*Group.UNKNOWN, "critiques")

    def counts(self, name: str) -> list[np.ndarray]:
        """int [T_i] of each consultation, the tokens of its turns beside the field `name`."""
        if self.tokens is None:
            return [np.ones(len(row), int) for row in self.given(name)]
        return [np.asarray(row, int) for row in self.tokens]


@credit("A²TGPO", "turns")
def a2tgpo(group: Group, weight: float = 0.3, discount: float = 1.0) -> Ragged:
    """Information gains, compared at the same turn, over the root of their number (A²TGPO).

    z_t is over the case's consultations for which t is not the last turn, with the population's
    deviation, as is z(R). The last turn has z(R) alone. The release leaves out gains of exactly
    zero. Its commit is the one that a copy of it names; the repository itself was not at hand.

    Formula: A_t = α Σ_{t≤k<n} γ^{k−t} z_k(b_{k+1} − b_k) / √(n − t) + z(R)
    Needs: beliefs: the policy's own, and the label
    Costs: a reading per turn by the actor
    Bias: can oppose the policy gradient of questions
    Source: Chen et al. 2026 (arXiv 2605.06200), release CuSO4-Chen/A-TGPO f3121f7
    """
    gains = [np.diff(belief) for belief in group.read("beliefs")]
    gains = at_each_turn(gains, lambda values: population_z(values, FLOOR))
    credits = []
    outcomes = population_z(np.asarray(group.rewards, np.float64), FLOOR)
    for gain, outcome in zip(gains, outcomes, strict=True):
        remaining = np.arange(len(gain), 0, -1)
        process = weight * to_go(gain, discount) / np.sqrt(remaining)
        credits.append(np.append(process, 0.0) + outcome)
    return credits


@credit("TRACE", "turns")
def trace(
    group: Group,
    weight: float = 0.2,
    reach: int = 3,
    discount: float = 0.8,
    terminal: float = 2.0,
    offset: float = 0.1,
) -> Ragged:
    """The outcome, and how far the answer came within reach over the next turns (TRACE).

    g_t = ε − log b_t is what is missing at turn t, d_t = log(g_t / g_{t+1}) what a turn takes off
    it. b_t is the geometric mean over the answer's tokens of their probability by the frozen first
    policy. z has the population's deviation. The last turn has z(R) alone.

    The paper was not at hand. This is its algorithm 1 as two public implementations have it, which
    agree: alphaXiv/trace-turn-level-reward-assignment-via-credit-es and iOPEN-Xing/agentic-rl
    32b7b44. The second leaves out the rule for tokens of the final answer, as does this.

    Args:
        group: with beliefs.
        weight: ω of the turns.
        reach: K, turns that are looked ahead.
        discount: γ, within the reach and from the end.
        terminal: λ, of the outcome in turns from which the end is within reach.
        offset: ε.

    Formula: A_t = z(R) + ω (Σ_{j<K} γ^j d_{t+j} / Σ_{j<K} γ^j + λ γ^{n−t} z(R) where t + K ≥ n)
    Needs: beliefs: a frozen model's, and the answer
    Costs: a reading per turn
    Bias: little in questions; pushes towards asking
    Source: Tao et al. 2026 (arXiv 2607.13988), no release; by two public implementations
    """
    outcomes = population_z(np.asarray(group.rewards, np.float64))
    credits = []
    for belief, outcome in zip(group.read("beliefs"), outcomes, strict=True):
        missing = offset - np.log(np.maximum(belief, TINIEST))
        taken = -np.diff(np.log(missing))
        count = len(taken)
        turns = np.zeros(count + 1)
        for t in range(count):
            ahead = taken[t : t + reach]
            shares = discount ** np.arange(len(ahead))
            turns[t] = (shares * ahead).sum() / shares.sum()
            if t + reach >= count:
                turns[t] += terminal * discount ** (count - t) * outcome
        credits.append(outcome + weight * turns)
    return credits


@credit("AReW", "turns")
def arew(group: ProcessGroup, size: float = 0.1) -> Ragged:
    """The outcome, and a bonus by directional critiques that sums to zero over tokens (AReW).

    The side with fewer tokens gets ±c, the other ∓c times the ratio of the two; a consultation with
    critiques of one sign gets none. The release adds the bonus to GAE's advantage, this one to
    GRPO's; critiques are the user's (there: whether a question brought anything new, and whether
    the belief moved towards the truth). `minority_fixed` is its default of five modes.

    Formula: A_t = z(R) + c κ_t min(1, N_other / N_own), N: tokens of turns with κ of a sign
    Needs: critiques: a judge of each turn; tokens, else each turn counts as one
    Costs: a judgement per turn
    Bias: hardly any at c = 0.1, where the outcome outweighs the bonus
    Source: Zou et al. 2026 (arXiv 2603.12109), release unimpor/T3 3ed462b
    """
    outcomes = terminal_advantages(group.rewards)
    judged = zip(group.read("critiques"), group.counts("critiques"), outcomes, strict=True)
    credits = []
    for critiques, tokens, outcome in judged:
        signs = np.sign(critiques)
        up, down = tokens[signs > 0].sum(), tokens[signs < 0].sum()
        fewer = min(up, down)
        share = np.where(signs > 0, fewer / max(up, 1), fewer / max(down, 1))
        credits.append(outcome + size * signs * share)
    return credits


def critiques_of(beliefs: Sequence[Row]) -> Ragged:
    """A critique of each turn: whether it moved the belief in the truth up (1) or down (-1).

    Args:
        beliefs: float [T_i] of each consultation, before its turns; the last turn has no critique.
    """
    return [np.append(np.sign(np.diff(belief)), 0.0) for belief in beliefs]


@credit("ITPO", "turns")
def itpo(group: ProcessGroup, temperature: float | None = None) -> Ragged:
    """Rewards by an implicit process reward model, less their mean, as return to go (ITPO).

    r_t is the model's, β Σ log(π_φ/π_ref) over the turn's tokens. With a temperature R_i is dealt
    out by their softmax instead (its normalised form, which the release gives the mean over a
    turn's tokens times the mean length of turns; temperature 0.4). The release then whitens over
    the update's tokens, which is not done here.

    Formula: A_t = G/(G−1) Σ_{k≥t} (r_k − m), m: mean over consultations of their mean turn
    Needs: implicit: a process reward model that learns from outcomes along with the policy
    Costs: training that model; two readings per response
    Bias: not measured
    Source: Wang et al. 2026 (arXiv 2603.23550), release Graph-COM/ITPO b1245e8
    """
    rows = group.read("implicit")
    if temperature is not None:
        rewards = np.asarray(group.rewards, np.float64)
        rows = [r * _softmax(row / temperature) for r, row in zip(rewards, rows, strict=True)]
    count = len(rows)
    if count < 2:
        return [np.zeros_like(row) for row in rows]
    mean = np.mean([row.mean() for row in rows])
    return [to_go(count / (count - 1) * (row - mean)) for row in rows]


@credit("InfoPO", "turns")
def infopo(group: ProcessGroup, weight: float = 0.1, temperature: float = 0.05) -> Ragged:
    """The outcome, and where outcomes are alike what answers did to the next response (InfoPO).

    v_t is the shift of turn t divided by its tokens; z is over the tokens of all turns with a shift
    that is not zero, and zero at the others. σ is the logistic function. The release bounds the
    second term by a ratio of deviations, which z leaves at one, and may let the weight decay.

    Formula: A_t = z(R) + β σ(−sd R / 0.05) z(v_t)
    Needs: shifts: log-probabilities of each response with and without the last answer; tokens,
        else each turn counts as one
    Costs: two readings per response by the actor
    Bias: hardly any at β = 0.1; pushes a little towards stopping at trained policies
    Source: Kong et al. 2026 (arXiv 2603.00656), release kfq20/InfoPO c26e93c
    """
    tokens, shifts = group.counts("shifts"), group.read("shifts")
    rates = [row / size for row, size in zip(shifts, tokens, strict=True)]
    every = np.repeat(np.concatenate(rates), np.concatenate(tokens))
    every = every[every != 0]
    mean = every.mean() if len(every) else 0.0
    deviation = every.std(ddof=1) if len(every) > 1 else 1.0
    spread = np.std(np.asarray(group.rewards, float), ddof=1) if len(group.rewards) > 1 else 1.0
    gate = weight / (1 + np.exp(spread / temperature))
    return [
        outcome + gate * np.where(row != 0, (row - mean) / (deviation + EPSILON), 0.0)
        for row, outcome in zip(rates, terminal_advantages(group.rewards), strict=True)
    ]


def _softmax(values: np.ndarray) -> np.ndarray:
    powers = np.exp(values - values.max())
    return powers / powers.sum()
