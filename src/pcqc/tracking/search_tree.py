"""A picture of one tree that a run searched: kept and pruned branches, values, visits."""

from collections.abc import Sequence
from textwrap import shorten

from pcqc.tracking.templates import render

MOST_NODES = 48  # of a tree that is still legible
WIDTH, GAP, ROW, TOP, BOTTOM = 200, 34, 48, 58, 50  # pixels

# Kind of a node, which the template gives its colours, and its name in the legend.
KINDS = {
    "kept": "kept",
    "pruned": "pruned",
    "right": "correct answer",
    "wrong": "wrong or no answer",
}


def chosen(trees: Sequence[dict]) -> dict:
    """The largest tree that is legible, the latest among equals; else the smallest."""
    legible = [tree for tree in trees if len(tree["nodes"]) <= MOST_NODES]
    if not legible:
        return min(trees, key=lambda tree: len(tree["nodes"]))
    return max(legible, key=lambda tree: (len(tree["nodes"]), tree["update"]))


def draw(tree: dict, title: str) -> str:
    """The tree of a row of trees.jsonl as SVG, from left to right, one column a turn."""
    nodes = tree["nodes"]
    rows = _rows(nodes)
    middles = [TOP + (row + 0.5) * ROW for row in rows]
    deepest = max(node["depth"] for node in nodes)
    options = ", ".join(f"{label} {text}" for label, text in tree["options"].items())
    return render(
        "search_tree.svg",
        title=title,
        tree=tree,
        subject=f"{shorten(tree['initial'], 80)} Options: {shorten(options, 120)}; "
        f"correct: {tree['answer_label']}",
        boxes=[_box(node, middles[i], middles) for i, node in enumerate(nodes)],
        legend=KINDS,
        width=max(40 + deepest * (WIDTH + GAP) + WIDTH, 640),
        height=round(TOP + (max(rows) + 1) * ROW + BOTTOM),
        box_width=WIDTH,
        gap=GAP,
    )


def _box(node: dict, middle: float, middles: Sequence[float]) -> dict:
    parent = node["parent"]
    return {
        "left": 20 + node["depth"] * (WIDTH + GAP),
        "middle": middle,
        "start": None if parent is None else middles[parent],
        "cut": node["pruned"],
        "kind": _kind(node),
        "said": shorten(_said(node), 36, placeholder=" …"),
        "numbers": " · ".join(_numbers(node)),
    }


def _kind(node: dict) -> str:
    if node["terminal"]:
        return "right" if node["reward"] > 0 else "wrong"
    return "pruned" if node["pruned"] else "kept"


def _said(node: dict) -> str:
    """What was said to get here."""
    if node["parent"] is None:
        return "initial state"
    if node["ending"] in ("answer", "invalid_answer"):
        return f"Final answer {node['predicted'] or '(not valid)'}"
    return node["question"] or "(no question)"


def _numbers(node: dict) -> list[str]:
    numbers = [f"r {node['reward']:+.0f}"] if node["terminal"] else [f"V {node['value']:.2f}"]
    if node["visits"] and not node["terminal"]:
        numbers += [f"V̂ {node['backed_up']:.2f}", f"n {node['visits']}"]
    if node["visits"] and node["parent"] is not None:
        numbers.append(f"A {node['advantage']:+.2f}")
    if node["uncertainty"] is not None:
        numbers.append(f"U {node['uncertainty']:.2f}")
    return numbers


def _rows(nodes: Sequence[dict]) -> list[float]:
    """Row of each node: leaves one below the other, a parent in the middle of its children."""
    children: list[list[int]] = [[] for _ in nodes]
    for i, node in enumerate(nodes):
        if node["parent"] is not None:
            children[node["parent"]].append(i)
    rows, leaves = [0.0] * len(nodes), 0
    for i in _post_order(children):
        if children[i]:
            rows[i] = (rows[children[i][0]] + rows[children[i][-1]]) / 2
        else:
            rows[i], leaves = float(leaves), leaves + 1
    return rows


def _post_order(children: Sequence[Sequence[int]], node: int = 0) -> list[int]:
    """Every node after its children, siblings in order."""
    return [i for child in children[node] for i in _post_order(children, child)] + [node]
