"""ATPO's search: a tree of consultations per case, all cases level by level side by side.

Every response that is sampled at a state is answered and leads to a state of its own; the critic
values all of them before anything is pruned. A trajectory of the tree is a plain consultation.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

import numpy as np

from pcqc.cases import Case
from pcqc.config import TreeSearch
from pcqc.consultation import (
    Consultation,
    Dialogue,
    Setting,
    advance,
    answer,
    open_dialogues,
    respond,
)
from pcqc.credit.tree import RunningVariance, Tree, uncertainty, width
from pcqc.seeds import stream, uniform

# Token ids of states -> per state, the critic's outputs at the tokens that end it.
Values = Callable[[Sequence[Sequence[int]]], list[np.ndarray]]


@dataclass(eq=False)
class Search:
    """The tree of one case, and what stands at its nodes.

    Attributes:
        case: which is diagnosed.
        tree: its numbers.
        dialogues: of each node, where its state was reached.
        value_tokens: of each node, float [tokens], the critic's outputs that its value is the mean
            of; empty where the consultation ended.
    """

    case: Case
    tree: Tree = field(default_factory=Tree)
    dialogues: list[Dialogue] = field(default_factory=list)
    value_tokens: list[np.ndarray] = field(default_factory=list)

    def add(self, parent: int | None, dialogue: Dialogue, settings: TreeSearch) -> int:
        """Append the node of a dialogue; its index."""
        ended = dialogue.consultation.ending is not None
        gained = reward(self.case, dialogue.consultation, settings) if ended else 0.0
        self.dialogues.append(dialogue)
        self.value_tokens.append(np.empty(0))
        return self.tree.add(parent, reward=gained, terminal=ended)

    @property
    def trajectories(self) -> list[tuple[Consultation, list[int]]]:
        """Every completed consultation, with the nodes from the root to its end."""
        return [
            (self.dialogues[i].consultation, self.tree.path(i))
            for i, node in enumerate(self.tree.nodes)
            if node.terminal
        ]


def reward(case: Case, consultation: Consultation, settings: TreeSearch) -> float:
    """Terminal reward: of the correct final answer, of another valid one, or of none."""
    if consultation.predicted == case.answer:
        return settings.reward_correct
    answered = consultation.predicted is not None
    return settings.reward_wrong if answered else settings.reward_none


def search(
    setting: Setting,
    values: Values,
    settings: TreeSearch,
    cases: Sequence[Case],
    statistics: RunningVariance,
    name: str,
) -> list[Search]:
    """Grow the tree of every case, breadth first, until all its trajectories have ended.

    Args:
        setting: roles and rules.
        values: the critic.
        settings: budget, candidates, pruning.
        cases: one tree each.
        statistics: of the variances so far; taken on by this search.
        name: of the random streams, `<seed>/<stage>`; those of a node that was reached by first
            candidates alone are those of a plain consultation's first rollout.
    """
    searches = [Search(case) for case in cases]
    for one, dialogue in zip(searches, open_dialogues(setting, cases), strict=True):
        one.add(None, dialogue, settings)
    _value(setting, values, [(one, 0) for one in searches])
    for turn in range(setting.protocol.max_turns):
        leaves = [(one, leaf) for one in searches for leaf in one.tree.leaves]
        if not leaves:
            break
        _value(setting, values, _expand(setting, settings, leaves, turn, name))
        _prune(setting, settings, leaves, statistics, turn, name)
    return searches


def _expand(setting, settings: TreeSearch, leaves, turn: int, name: str) -> list:
    """Sample, answer and append the children of a level's leaves; (search, node) of each."""
    widths, dialogues = [], []
    for one, of_tree in itertools.groupby(leaves, key=itemgetter(0)):
        numbers = [number for _, number in of_tree]
        wide = width(one.tree.completed, len(numbers), settings.budget, settings.candidates)
        widths += [wide] * len(numbers)
        dialogues += [one.dialogues[number] for number in numbers]
    groups = respond(setting, dialogues, widths, turn, name)
    groups = answer(setting, dialogues, groups, turn, name)
    children = []
    for (one, leaf), dialogue, group in zip(leaves, dialogues, groups, strict=True):
        for candidate, response in enumerate(group):
            child = dialogue.branch(turn, candidate)
            advance(setting, child, (response,), turn)
            children.append((one, one.add(leaf, child, settings)))
    return children


def _value(setting, values: Values, nodes: list[tuple[Search, int]]) -> None:
    """Have the critic value the states among the nodes; ends are worth 0."""
    going = [(one, i) for one, i in nodes if not one.tree.nodes[i].terminal]
    with setting.timed("critic"):
        outputs = values([one.dialogues[i].state for one, i in going])
    for (one, i), tokens in zip(going, outputs, strict=True):
        one.value_tokens[i] = tokens
        one.tree.nodes[i].value = float(np.mean(tokens))


def _prune(setting, settings: TreeSearch, parents, statistics, turn: int, name: str) -> None:
    """Decide at each parent with several children whether the search follows one of them alone."""
    choices = [(one, i) for one, i in parents if len(one.tree.nodes[i].children) > 1]
    variances = [float(np.var(one.tree.action_values(i))) for one, i in choices]
    scores = statistics.score(turn, variances)
    statistics.absorb(turn, variances)
    for (one, i), score in zip(choices, scores, strict=True):
        node = one.tree.nodes[i]
        node.uncertainty = uncertainty(
            node.value, one.tree.action_values(i), float(score), settings.variance_weight
        )
        coordinates = ("prune", one.case.case_id, one.dialogues[i].lineage, turn)
        draws = np.array([stream(0, name, *coordinates)], np.uint64)
        certain = node.uncertainty < settings.threshold
        if certain and uniform(draws, 0)[0] < settings.prune_probability:
            kept = node.children[int(uniform(draws, 1)[0] * len(node.children))]
            for child in node.children:
                one.tree.nodes[child].pruned = child != kept
