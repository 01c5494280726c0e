"""What is logged of searched trees: one of them node by node, and numbers of all."""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from turn_credit.tree import atpo, back_up, visits

if TYPE_CHECKING:
    from pcqc.methods.atpo.search_and_pruning import Search
    from pcqc.methods.atpo.settings import TreeSearch


def tree_row(search: "Search", rules: "TreeSearch") -> dict:
    """A searched tree as plain data: the question at each node, and all its numbers.

    Args:
        search: the searched tree.
        rules: how advantages are read.
    """
    values, counts = back_up(search.tree), visits(search.tree)
    scores = atpo(search.tree, rules.divide_by_visits, rules.advantage)
    nodes = []
    for i, (node, dialogue) in enumerate(zip(search.tree.nodes, search.dialogues, strict=True)):
        turn = dialogue.consultation.turns[-1].executed if node.parent is not None else None
        nodes.append(
            {
                **{k: v for k, v in dataclasses.asdict(node).items() if k != "children"},
                "backed_up": float(values[i]),
                "visits": int(counts[i]),
                "advantage": float(scores[i]),
                "response": turn and turn.text,
                "question": turn and turn.action.question,
                "answer": turn and turn.answer,
                "predicted": dialogue.consultation.predicted,
                "ending": dialogue.consultation.ending,
            }
        )
    case = search.case
    return {
        "case_id": case.case_id,
        "initial": case.initial,
        "question": case.question,
        "options": case.options,
        "answer_label": case.answer,
        "nodes": nodes,
    }


def tree_metrics(searches: "Sequence[Search]") -> dict[str, float]:
    """Size of the trees, what was pruned, and how the critic's values fit the backed-up ones."""
    nodes = [node for search in searches for node in search.tree.nodes]
    passed = np.concatenate([visits(search.tree) > 0 for search in searches])
    targets = np.concatenate([back_up(search.tree) for search in searches])
    values = np.array([node.value for node in nodes])
    states = passed & ~np.array([node.terminal for node in nodes])
    decided = [node.uncertainty for node in nodes if node.uncertainty is not None]
    return {
        "tree/nodes": len(nodes) / len(searches),
        "tree/trajectories": sum(search.tree.completed for search in searches) / len(searches),
        "tree/pruned_share": float(np.mean([node.pruned for node in nodes])),
        "tree/uncertainty": float(np.mean(decided)) if decided else 0.0,
        "tree/root_value": float(np.mean([search.tree.nodes[0].value for search in searches])),
        "critic/correlation": _correlation(values[states], targets[states]),
    }


def _correlation(values: np.ndarray, targets: np.ndarray) -> float:
    """Pearson's between values and backed-up values; 0 where either is constant."""
    if len(values) < 2 or min(values.std(), targets.std()) < 1e-6:
        return 0.0
    return float(np.corrcoef(values, targets)[0, 1])
