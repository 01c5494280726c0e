"""The search tree of ATPO as numbers: width, uncertainty, backup, visits, advantages.

Tree policy optimisation of Cao et al. (arXiv 2603.02216) in its U1+U2 configuration, with the
settings of the paper (app:pcqc_frozen_setup). A node is a dialogue state; its edge from the parent
is one turn of the actor. Nothing is discounted (gamma = 1).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from turn_credit.registry import credit

EPSILON = 1e-7  # beside the standard deviation of the variances


@dataclass
class Node:
    """A dialogue state s.

    Attributes:
        parent: index of its parent, None at the root.
        depth: number of turns before it.
        reward: r of the turn that led here; 0 unless that turn ended the consultation.
        value: V_psi(s) as the critic had it during the search; 0 where terminal.
        terminal: whether the consultation ended here.
        children: their indices.
        uncertainty: U of the state, None where it was not decided whether to prune below it.
        pruned: whether the search went no further from here.
    """

    parent: int | None
    depth: int
    reward: float = 0.0
    value: float = 0.0
    terminal: bool = False
    children: list[int] = field(default_factory=list)
    uncertainty: float | None = None
    pruned: bool = False

    @property
    def counts(self) -> bool:
        """Whether its value counts for its parent; a pruned state's is not known, an end's is."""
        return self.terminal or not self.pruned

    @property
    def completed(self) -> bool:
        """Whether it ends a trajectory; a pruned end counts in the backup alone."""
        return self.terminal and not self.pruned


@dataclass
class Tree:
    """Nodes of one case, parents before children; node 0 is the root."""

    nodes: list[Node] = field(default_factory=list)

    def add(self, parent: int | None, **values) -> int:
        """Append a node; its index. `values` are further attributes of `Node`."""
        depth = 0 if parent is None else self.nodes[parent].depth + 1
        self.nodes.append(Node(parent, depth, **values))
        if parent is not None:
            self.nodes[parent].children.append(len(self.nodes) - 1)
        return len(self.nodes) - 1

    @property
    def completed(self) -> int:
        """Number of trajectories that have ended."""
        return sum(node.completed for node in self.nodes)

    @property
    def leaves(self) -> list[int]:
        """States from which the search goes on."""
        return [
            i
            for i, node in enumerate(self.nodes)
            if not (node.terminal or node.pruned or node.children)
        ]

    def path(self, index: int) -> list[int]:
        """Nodes from the root to a node, both included."""
        path = [index]
        while (parent := self.nodes[path[-1]].parent) is not None:
            path.append(parent)
        return path[::-1]

    def action_values(self, index: int) -> np.ndarray:
        """Q = r + V_psi(s') of each child, in order."""
        children = [self.nodes[i] for i in self.nodes[index].children]
        return np.array([child.reward + child.value for child in children])


def width(completed: int, leaves: int, budget: int, candidates: int) -> int:
    """Responses that every leaf of a level samples: N, or 1 where N might exceed the budget M."""
    return 1 if completed + candidates * leaves > budget else candidates


def uncertainty(
    value: float,
    action_values: Sequence[float] | np.ndarray,
    variance_score: float,
    variance_weight: float,
) -> float:
    """U = w U2 + (1 - w) U1 of a state.

    Args:
        value: V(s).
        action_values: Q of its children; U1 = |V(s) - mean Q|.
        variance_score: U2, the standardised variance of Q (`RunningVariance.score`).
        variance_weight: w.
    """
    surprise = abs(value - float(np.mean(action_values)))
    return variance_weight * variance_score + (1 - variance_weight) * surprise


class RunningVariance:
    """Running mean and standard deviation of the variances of Q, for each level and for all.

    They are frozen while an update searches; `absorb` takes the update in at its end.

    Args:
        memory: plain data that holds them, changed in place, so that a run can be resumed.
        weight: the newest update's; what was before has 1 - weight.
    """

    ALL = "all"

    def __init__(self, memory: dict[str, list[float]], weight: float):
        self.memory, self.weight = memory, weight

    def score(self, depth: int, variances: Sequence[float]) -> np.ndarray:
        """U2 of states at a depth: their variances, standardised by those of earlier updates.

        A level without statistics takes those of all levels; before any, the variance itself is
        the score.
        """
        seen = np.asarray(variances, np.float64)
        known = self.memory.get(str(depth)) or self.memory.get(self.ALL)
        if known is None:
            return seen
        mean, deviation = known
        return (seen - mean) / (deviation + EPSILON)

    def absorb(self, levels: Mapping[int, Sequence[float]]) -> None:
        """Take in an update's variances, pooled over all trees.

        Args:
            levels: depth -> variances of its states with several children.
        """
        pooled = {str(depth): list(of_level) for depth, of_level in levels.items() if len(of_level)}
        if pooled:
            pooled[self.ALL] = [variance for of_level in pooled.values() for variance in of_level]
        for name, variances in pooled.items():
            new, old = np.array([np.mean(variances), np.std(variances)]), self.memory.get(name)
            mixed = new if old is None else self.weight * new + (1 - self.weight) * np.array(old)
            self.memory[name] = mixed.tolist()


def back_up(tree: Tree) -> np.ndarray:
    """V_hat of every node, float64 [nodes]: the mean over its children of r + V_hat(child).

    Pruned children are left out unless they are terminal. An end is worth 0 beyond its reward; a
    state without a child that counts keeps the critic's value.
    """
    values = np.array([node.value for node in tree.nodes], np.float64)
    for index in reversed(range(len(tree.nodes))):
        node = tree.nodes[index]
        known = [tree.nodes[i].reward + values[i] for i in node.children if tree.nodes[i].counts]
        if node.terminal:
            values[index] = 0.0
        elif known:
            values[index] = np.mean(known)
    return values


def visits(tree: Tree) -> np.ndarray:
    """Completed trajectories through every node, int64 [nodes]."""
    counts = np.array([int(node.completed) for node in tree.nodes])
    for index in reversed(range(1, len(tree.nodes))):
        counts[tree.nodes[index].parent] += counts[index]
    return counts


# What stands for V(s') and V(s) in the advantage of a turn from s to s'.
ADVANTAGES = ("critic", "critic_or_backed_up", "backed_up", "return")


@credit("ATPO", "nodes")
def atpo(tree: Tree, by_visits: bool = True, advantage: str = "critic") -> np.ndarray:
    """Advantage of the turn into every node of a searched tree, float64 [nodes]; 0 at the root.

    A turn counts once over all trajectories that share it. Turns that no completed trajectory takes
    are not trained on: 0.

    Formula: A = (r + V(s') − V(s)) / visits of s'
    Needs: a searched tree, and a learned critic V
    Costs: a tree of consultations per case
    Bias: that of the critic
    Source: Cao et al. 2026 (arXiv 2603.02216), release Quark-Medical/ATPO 25af836

    Args:
        tree: with rewards and the critic's values.
        by_visits: False leaves out the division.
        advantage: `critic`: V as the critic has it, as the release is run. `critic_or_backed_up`:
            the backed-up V_hat in its place where s has several children, the release's other
            branch. `backed_up`: r + V_hat(s') − V_hat(root). `return`: for r + V(s') the rewards
            from this turn on, a mean over the completed trajectories that take it; GAE with λ = 1.

    Raises:
        ValueError: an advantage of another name.
    """
    if advantage not in ADVANTAGES:
        raise ValueError(f"advantage '{advantage}': must be one of {', '.join(ADVANTAGES)}")
    critic = np.array([node.value for node in tree.nodes], np.float64)
    known, counts, followed = back_up(tree), visits(tree), _followed(tree)
    result = np.zeros(len(tree.nodes))
    for index, node in enumerate(tree.nodes):
        if node.parent is None or not counts[index]:
            continue
        values = critic
        if advantage == "critic_or_backed_up" and len(tree.nodes[node.parent].children) > 1:
            values = known
        after, before = values[index], values[node.parent]
        if advantage == "backed_up":
            after, before = known[index], known[0]
        elif advantage == "return":
            after = followed[index]
        gain = node.reward + after - before
        result[index] = gain / counts[index] if by_visits else gain
    return result


def _followed(tree: Tree) -> np.ndarray:
    """Rewards after every node, float64 [nodes]: a mean over the completed trajectories through it.

    Of a node without any it is 0.
    """
    counts, sums = visits(tree), np.zeros(len(tree.nodes))
    for index in reversed(range(1, len(tree.nodes))):
        node = tree.nodes[index]
        sums[node.parent] += counts[index] * node.reward + sums[index]
    return sums / np.maximum(counts, 1)
