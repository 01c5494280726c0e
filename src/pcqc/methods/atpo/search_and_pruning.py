"""ATPO's search and pruning: a tree of consultations per case, all cases level by level.

Every response sampled at a state is answered and leads to a state of its own; the critic values
all before any is pruned, by U (`turn_credit.tree`). A trajectory is a plain consultation.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

import numpy as np

from pcqc.cases.case import Case
from pcqc.consultation import (
    Consultation,
    Dialogue,
    RolloutContext,
    advance,
    ask_patient,
    open_dialogues,
    sample_responses,
)
from pcqc.methods.atpo.settings import TreeSearch
from pcqc.seeds import stream, uniform
from turn_credit.tree import RunningVariance, Tree, uncertainty, width

# Token ids of states -> per state, the critic's outputs at the tokens that end it.
Values = Callable[[Sequence[Sequence[int]]], list[np.ndarray]]


def tree_reward(case: Case, consultation: Consultation, rules: TreeSearch) -> float:
    """Of the correct final answer, another valid one, or none (app:pcqc_frozen_setup)."""
    if consultation.is_correct(case):
        return rules.reward_correct
    return rules.reward_none if consultation.predicted is None else rules.reward_wrong


@dataclass(eq=False)
class Search:
    """The tree of one case, and what stands at its nodes.

    Attributes:
        case: which is diagnosed.
        tree: its numbers.
        dialogues: each node's, where its state was reached.
        value_tokens: each node's, float [tokens], the critic's outputs that its value is the mean
            of; empty where the consultation ended.
    """

    case: Case
    tree: Tree = field(default_factory=Tree)
    dialogues: list[Dialogue] = field(default_factory=list)
    value_tokens: list[np.ndarray] = field(default_factory=list)

    def add(self, parent: int | None, dialogue: Dialogue, rules: TreeSearch) -> int:
        """Append the node of a dialogue; its index."""
        ended = dialogue.consultation.ending is not None
        gained = tree_reward(self.case, dialogue.consultation, rules) if ended else 0.0
        self.dialogues.append(dialogue)
        self.value_tokens.append(np.empty(0))
        return self.tree.add(parent, reward=gained, terminal=ended)

    @property
    def trajectories(self) -> list[tuple[Consultation, list[int]]]:
        """Every completed consultation, with the nodes from the root to its end.

        A pruned end is none: it counts in the backup alone.
        """
        return [
            (self.dialogues[i].consultation, self.tree.path(i))
            for i, node in enumerate(self.tree.nodes)
            if node.completed
        ]


# A node of one of the trees.
Place = tuple[Search, int]


def search_trees(
    context: RolloutContext,
    values: Values,
    rules: TreeSearch,
    cases: Sequence[Case],
    statistics: RunningVariance,
    name: str,
) -> list[Search]:
    """Grow the tree of every case, breadth first, until all its trajectories have ended.

    Args:
        context: roles, and the consultation's rules.
        values: the critic.
        rules: the search's: budget, candidates, pruning.
        cases: one tree each.
        statistics: those of the variances in earlier updates; they take in this one at its end.
        name: begins the random streams', `<seed>/<stage>`; those of a node that was reached by
            first candidates alone are those of a plain consultation's first rollout.
    """
    searches = [Search(case) for case in cases]
    for search, dialogue in zip(searches, open_dialogues(context, cases), strict=True):
        search.add(None, dialogue, rules)
    _value(context, values, [(search, 0) for search in searches])
    variances: dict[int, list[float]] = {}
    for depth in range(context.protocol.max_turns):
        leaves = [(search, leaf) for search in searches for leaf in search.tree.leaves]
        if not leaves:
            break
        _value(context, values, _expand(context, rules, leaves, name))
        variances[depth] = _prune(rules, leaves, depth, statistics, name)
    statistics.absorb(variances)
    return searches


def _expand(
    context: RolloutContext, rules: TreeSearch, leaves: Sequence[Place], name: str
) -> list[Place]:
    """Sample, answer and append the children of a level's leaves."""
    widths, dialogues = [], []
    for search, of_tree in itertools.groupby(leaves, key=itemgetter(0)):
        own = [search.dialogues[leaf] for _, leaf in of_tree]
        wide = width(search.tree.completed, len(own), rules.budget, rules.candidates)
        widths += [wide] * len(own)
        dialogues += own
    groups = sample_responses(context, dialogues, widths, name)
    groups = ask_patient(context, dialogues, groups, name)
    children = []
    for (search, leaf), dialogue, group in zip(leaves, dialogues, groups, strict=True):
        for candidate, response in enumerate(group):
            child = dialogue.branch(candidate)
            advance(context, child, [response])
            children.append((search, search.add(leaf, child, rules)))
    return children


def _value(context: RolloutContext, values: Values, places: Sequence[Place]) -> None:
    """Have the critic value the states among the nodes; ends are worth 0."""
    going = [(search, i) for search, i in places if not search.tree.nodes[i].terminal]
    with context.timed("critic"):
        outputs = values([search.dialogues[i].state for search, i in going])
    for (search, i), tokens in zip(going, outputs, strict=True):
        search.value_tokens[i] = tokens
        search.tree.nodes[i].value = float(np.mean(tokens))


def _prune(
    rules: TreeSearch, parents: Sequence[Place], depth: int, statistics: RunningVariance, name: str
) -> list[float]:
    """Decide at each parent with several children whether the search follows one of them alone.

    Returns:
        The variance of Q at each of these parents.
    """
    choices = [(search, i) for search, i in parents if len(search.tree.nodes[i].children) > 1]
    variances = [float(np.var(search.tree.action_values(i))) for search, i in choices]
    scores = statistics.score(depth, variances)
    for (search, i), score in zip(choices, scores, strict=True):
        node = search.tree.nodes[i]
        node.uncertainty = uncertainty(
            node.value, search.tree.action_values(i), float(score), rules.variance_weight
        )
        coordinates = ("prune", search.case.case_id, search.dialogues[i].lineage, depth)
        draws = np.array([stream(0, name, *coordinates)], np.uint64)
        certain = node.uncertainty < rules.threshold
        if certain and uniform(draws, 0)[0] < rules.prune_probability:
            kept = node.children[int(uniform(draws, 1)[0] * len(node.children))]
            for child in node.children:
                search.tree.nodes[child].pruned = child != kept
    return variances
