"""Each published credit beside its release's formula, on 500 random cases.

The formulas are written here anew, plainly, from what the named lines of the named commit do; where
ours differs by default (docs/credits.md), the setting that gives the release's form is used.
"""

import math
from itertools import pairwise

import numpy as np
import pytest

from turn_credit import (
    Group,
    ProcessGroup,
    a2tgpo,
    arew,
    atpo,
    c3,
    gigpo,
    grpo,
    igpo,
    infopo,
    itpo,
    mt_grpo,
    tips,
    tips_scale,
    trace,
    vineppo,
)
from turn_credit.tree import Tree, back_up, visits

CASES = 500


def draw(rng, turns=None) -> ProcessGroup:
    """A case of 2 to 6 consultations of 2 to 5 turns, with all that a credit of turns reads."""
    lengths = [turns or int(rng.integers(2, 6)) for _ in range(rng.integers(2, 7))]
    return ProcessGroup(
        rewards=[int(right) for right in rng.integers(0, 2, len(lengths))],
        beliefs=[rng.uniform(0.05, 0.95, n) for n in lengths],
        values=[rng.uniform(0, 1, n) for n in lengths],
        states=[["opening", *rng.integers(0, 3, n - 1)] for n in lengths],
        tokens=[rng.integers(1, 9, n) for n in lengths],
        critiques=[rng.integers(-1, 2, n) for n in lengths],
        implicit=[rng.normal(0, 0.2, n) for n in lengths],
        shifts=[np.append(rng.normal(0, 1, n - 1), 0) for n in lengths],
    )


def mean(values):
    return sum(values) / len(values)


def deviation(values, less=1):
    """Sample deviation; the population's with `less=0`."""
    center = mean(values)
    return math.sqrt(sum((x - center) ** 2 for x in values) / (len(values) - less))


def z(values, less=1, epsilon=1e-6):
    return [(x - mean(values)) / (deviation(values, less) + epsilon) for x in values]


def discounted(rewards, discount):
    return [
        sum(discount ** (k - t) * rewards[k] for k in range(t, len(rewards)))
        for t in range(len(rewards))
    ]


def of_release(values):
    """z of IGPO and A²TGPO: population's deviation of at least 1e-4; one value is its own mean."""
    if len(values) < 2:
        return [0.0] * len(values)
    sd = math.sqrt(deviation(values, 0) ** 2 + 1e-8)
    return [(x - mean(values)) / (sd + 1e-6) for x in values]


def check(make, formula, turns=None, tolerance=1e-4):
    """Formula and credit of 500 cases; both get the same group."""
    rng = np.random.default_rng(7)
    for _ in range(CASES):
        group = draw(rng, turns)
        for ours, theirs in zip(make(group), formula(group), strict=True):
            assert ours == pytest.approx(theirs, rel=tolerance, abs=tolerance)


def information_gains(group, read):
    return [[read(b) - read(a) for a, b in pairwise(row)] for row in group.beliefs]


@pytest.mark.parametrize("skip", [False, True])
def test_igpo(skip):
    """GuoqingWang1/IGPO 745078b, which the fork debajoycs98/IGPO keeps: `separate`, discount 1.

    verl/trainer/ppo/core_algos.py:182-330; differences of log b by train.sh:56; zeros by
    verl/utils/reward_score/info_gain.py:287.
    """

    def formula(group):
        gains = information_gains(group, math.log)
        flat = [g for row in gains for g in row if g or not skip]
        normal, outcomes = iter(of_release(flat)), of_release(group.rewards)
        rows = [[next(normal) if g or not skip else 0.0 for g in row] for row in gains]
        return [discounted([*row, o], 1.0) for row, o in zip(rows, outcomes, strict=True)]

    def still(group):
        """Half of the cases have turns that change nothing."""
        if group.rewards[0]:
            for row in group.beliefs:
                row[1:] = row[0] if row[0] < 0.5 else row[1:]
        return igpo(group, logarithm=True, skip_zeros=skip)

    check(still, formula)


def test_tips():
    """ucsd-wang-lab-lm/tips c8687e3; the mean at a turn, in place of a critic, is ours.

    verl/workers/reward_manager/info_reward_llm.py:1808-1831 (the batch's scale) and :2035-2039 (the
    last potential is paid back).
    """
    rng = np.random.default_rng(3)
    groups = [draw(rng) for _ in range(CASES)]
    groups[0].beliefs[0][1] = groups[0].beliefs[0][0]  # a change of zero does not count
    changes = [
        abs(g) for group in groups for row in information_gains(group, math.log) for g in row
    ]
    changes = [g for g in changes if g > 1e-8]
    scale = (0.02 + 0.2) / 2 / mean(changes)
    assert tips_scale(groups) == pytest.approx(scale)
    for group in groups:
        returns = []
        for belief, reward in zip(group.beliefs, group.rewards, strict=True):
            phi = [math.log(b) for b in belief]
            shaped = [scale * (b - a) for a, b in pairwise(phi)]
            returns.append(discounted([*shaped, reward - scale * phi[-1]], 1.0))
        for ours, theirs in zip(tips(group, scale=scale), returns, strict=True):
            at = [mean([row[t] for row in returns if len(row) > t]) for t in range(len(theirs))]
            assert ours == pytest.approx([r - b for r, b in zip(theirs, at, strict=True)])


def test_vineppo():
    """McGill-NLP/VinePPO efe7228, with turns of one token in one micro-batch.

    src/treetune/episode_generators/math_episode_generator_with_mc_advantages.py:377-402, then
    whitened, src/treetune/trainers/ppo_trainer.py:746-752 (`unbiased_variance`).
    """

    def formula(group):
        rows = [
            [b - a for a, b in zip(v, [*v[1:], r], strict=True)]
            for v, r in zip(group.values, group.rewards, strict=True)
        ]
        flat = [change for row in rows for change in row]
        whiten = 1 / math.sqrt(deviation(flat) ** 2 + 1e-8)
        return [[(x - mean(flat)) * whiten for x in row] for row in rows]

    check(vineppo, formula)


@pytest.mark.parametrize("divide", [False, True])
@pytest.mark.parametrize("over_turns", [False, True])
def test_gigpo(over_turns, divide):
    """langfengQ/verl-agent 20bd331, which the fork cq-dong/verl-agent keeps.

    gigpo/core_gigpo.py:174-241 (over turns) and :334-383, mode `mean_std_norm`, or `mean_norm`, its
    default by :146 and verl/trainer/config/ppo_trainer.yaml:252.
    """

    def formula(group):
        def size(values):
            return deviation(values) + 1e-6 if divide else 1.0

        counted = [
            r
            for r, s in zip(group.rewards, group.states, strict=True)
            for _ in range(len(s) if over_turns else 1)
        ]
        episode = [(r - mean(counted)) / size(counted) for r in group.rewards]
        at = {}
        for i, states in enumerate(group.states):
            for t, state in enumerate(states):
                at.setdefault(state, {})[i, t] = group.rewards[i] * 0.95 ** (len(states) - 1 - t)
        rows = [[a] * len(s) for a, s in zip(episode, group.states, strict=True)]
        for returns in at.values():
            every = list(returns.values())
            for (i, t), step in returns.items():
                rows[i][t] += (step - mean(every)) / size(every) if len(every) > 1 else 0.0
        return rows

    check(lambda group: gigpo(group, over_turns=over_turns, divide=divide), formula)


def test_mt_grpo():
    """SiliangZeng/Multi-Turn-RL-Agent 7dbdd08: two turns, coefficient 1.

    verifiers/trainers/mt_grpo_env_trainer.py:172-206, grpo_env_trainer.py:261-267.
    """

    def formula(group):
        turn = z([b - a for a, b in group.beliefs], epsilon=1e-4)
        outcome = z(group.rewards, epsilon=1e-4)
        return [[o + t, o] for o, t in zip(outcome, turn, strict=True)]

    check(lambda group: mt_grpo(group, epsilon=1e-4), formula, turns=2, tolerance=1e-9)


def test_c3():
    """EIT-EAST-Lab/C3 628185b: c3/credit/c3/provider.py:505-506, variant `reward_only`.

    Then divided, openrlhf/trainer/ppo_utils/experience_maker.py:1761-1764.
    """
    rng = np.random.default_rng(5)
    for _ in range(CASES):
        values = list(rng.uniform(0, 1, rng.integers(2, 7)))
        less = [v - (sum(values) - v) / (len(values) - 1) for v in values]
        divided = [a / math.sqrt(deviation(less, 0) ** 2 + 1e-8) for a in less]
        assert c3(Group(continued=[values]))[0] == pytest.approx(less)
        assert c3(Group(continued=[values]), divide=True)[0] == pytest.approx(divided)


def test_a2tgpo():
    """CuSO4-Chen/A-TGPO f3121f7, by a copy: `turn-group-v1d`, α 0.3, γ 1; no gain is zero.

    core_algos.py `compute_igpo_step_advantage`.
    """

    def formula(group):
        gains = information_gains(group, float)
        outcomes = of_release(group.rewards)
        normal = [list(row) for row in gains]
        for t in range(max(map(len, gains))):
            having = [i for i, row in enumerate(gains) if len(row) > t]
            for i, value in zip(having, of_release([gains[i][t] for i in having]), strict=True):
                normal[i][t] = value
        return [
            [0.3 * sum(row[t:]) / math.sqrt(len(row) - t) + o for t in range(len(row))] + [o]
            for row, o in zip(normal, outcomes, strict=True)
        ]

    check(a2tgpo, formula)


def test_trace():
    """iOPEN-Xing/agentic-rl 32b7b44, hybrid_advantage.py: K 3, γ 0.8, ε 0.1, λ 2, ω 0.2.

    The paper has no release. This one takes the values' differences, V = log(d_0 / d_k).
    """

    def formula(group):
        spread = deviation(group.rewards, 0)
        rows = []
        for reward, row in zip(group.rewards, group.beliefs, strict=True):
            outcome = (reward - mean(group.rewards)) / spread if spread > 1e-6 else 0.0
            values = [math.log((0.1 - math.log(row[0])) / (0.1 - math.log(b))) for b in row]
            deltas = [after - before for before, after in pairwise(values)]
            advantages = []
            for t in range(len(deltas)):
                end = min(t + 2, len(deltas) - 1)
                shares = [0.8**j for j in range(end - t + 1)]
                local = sum(s * d for s, d in zip(shares, deltas[t:], strict=False)) / sum(shares)
                if end == len(deltas) - 1:
                    local += 2 * 0.8 ** (len(deltas) - t) * outcome
                advantages.append(outcome + 0.2 * local)
            rows.append([*advantages, outcome])
        return rows

    check(trace, formula)


def test_arew():
    """unimpor/T3 3ed462b: `minority_fixed`, token by token; z(R) in place of GAE's.

    verl/verl/trainer/ppo/ray_trainer.py `get_arew_modifier`.
    """

    def formula(group):
        rows = []
        for labels, tokens, (outcome, *_) in zip(
            group.critiques, group.tokens, grpo(group), strict=True
        ):
            flat = [label for label, n in zip(labels, tokens, strict=True) for _ in range(n)]
            up, down = flat.count(1), flat.count(-1)
            plus = minus = 0.0
            if up and down:
                plus, minus = (0.1, 0.1 * up / down) if up <= down else (0.1 * down / up, 0.1)
            bonus = {1: plus, -1: -minus, 0: 0.0}
            assert sum(bonus[label] for label in flat) == pytest.approx(0)
            rows.append([outcome + bonus[int(label)] for label in labels])
        return rows

    check(arew, formula)


@pytest.mark.parametrize("temperature", [None, 0.4])
def test_itpo(temperature):
    """Graph-COM/ITPO b1245e8: RLOO over turns, before its whitening.

    fingerprint/itpo/itpo_core_algos.py:12-37 and :182-188.
    """

    def formula(group):
        rows = [list(row) for row in group.implicit]
        if temperature:
            powers = [[math.exp(x / temperature) for x in row] for row in rows]
            rows = [
                [r * p / sum(row) for p in row]
                for r, row in zip(group.rewards, powers, strict=True)
            ]
        n = len(rows)
        baseline = sum(mean(row) for row in rows) / (n - 1)
        return [discounted([x * n / (n - 1) - baseline for x in row], 1.0) for row in rows]

    check(lambda group: itpo(group, temperature), formula, tolerance=1e-9)


def test_infopo():
    """kfq20/InfoPO c26e93c: β 0.1, token by token.

    verl/trainer/ppo/core_algos.py, estimator `info_grpo`, several turns of equal credit.
    """

    def formula(group):
        rates = [
            [s / n for s, n in zip(shifts, tokens, strict=True)]
            for shifts, tokens in zip(group.shifts, group.tokens, strict=True)
        ]
        every = [
            rate
            for row, tokens in zip(rates, group.tokens, strict=True)
            for rate, n in zip(row, tokens, strict=True)
            for _ in range(n)
            if rate
        ]
        center, spread = mean(every), deviation(every)
        gate = 0.1 / (1 + math.exp(deviation(group.rewards) / 0.05))
        return [
            [o + (gate * (x - center) / (spread + 1e-6) if x else 0.0) for x in row]
            for row, o in zip(rates, z(group.rewards), strict=True)
        ]

    check(infopo, formula)


def searched(rng) -> Tree:
    """A finished search at most four turns deep; below some states one child alone was kept."""
    tree = Tree()
    tree.add(None, value=rng.normal())
    for index, parent in enumerate(tree.nodes):  # goes on through the nodes that it adds
        if parent.terminal or parent.pruned:
            continue
        count = int(rng.integers(1, 5))
        kept = rng.integers(count) if rng.random() < 0.4 else None
        for i in range(count):
            ended = parent.depth == 3 or rng.random() < 0.3
            tree.add(
                index,
                value=0.0 if ended else rng.normal(),
                reward=float(rng.choice([3, 0, -1])) if ended else 0.0,
                terminal=ended,
                pruned=kept not in (None, i),
            )
    return tree


@pytest.mark.parametrize("only_use_critic_value", [True, False])
def test_atpo(only_use_critic_value):
    """Quark-Medical/ATPO 25af836, γ 1; its run.sh sets `only_use_critic_value=True`.

    codes/recipe/atpo/user_assistant_agent_loop.py:419-523. Children that were pruned stay among the
    children that are counted.
    """
    advantage = "critic" if only_use_critic_value else "critic_or_backed_up"
    rng = np.random.default_rng(11)
    for _ in range(CASES):
        tree = searched(rng)
        nodes = tree.nodes
        explored = [0] * len(nodes)
        for end in (i for i, node in enumerate(nodes) if node.terminal and not node.pruned):
            at = end
            while at is not None:
                explored[at] += 1
                at = nodes[at].parent
        values = [0.0 if node.terminal else None for node in nodes]
        for i in reversed(range(len(nodes))):
            known = [c for c in nodes[i].children if values[c] is not None]
            if known:
                values[i] = mean([nodes[c].reward + values[c] for c in known])
        assert visits(tree).tolist() == explored
        backed_up, credits = back_up(tree), atpo(tree, advantage=advantage)
        for i, node in enumerate(nodes):
            if not explored[i]:
                assert credits[i] == 0
                continue
            assert backed_up[i] == pytest.approx(values[i])
            if i == 0:
                assert credits[i] == 0
                continue
            parent = nodes[node.parent]
            if only_use_critic_value or len(parent.children) == 1:
                change = node.reward + node.value - parent.value
            else:
                change = node.reward + values[i] - values[node.parent]
            assert credits[i] == pytest.approx(change / max(explored[i], 1))
