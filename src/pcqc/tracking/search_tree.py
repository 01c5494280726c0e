"""Trees that a run searched: what a turn was worth, and a picture of one tree."""

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


def reached(nodes: Sequence[dict], responses: Sequence[str]) -> int | None:
    """Index of the node that responses lead to from the root; None where they leave the tree."""
    place = 0
    for response in responses:
        below = branches(nodes, place)
        taken = [i for i in below if nodes[i]["response"] == response]
        if not taken:
            return None
        place = taken[0]
    return place


def branches(nodes: Sequence[dict], place: int) -> list[int]:
    """Indices of the nodes right below one."""
    return [i for i, node in enumerate(nodes) if node["parent"] == place]


def why(nodes: Sequence[dict], place: int, by_visits: bool) -> str:
    """A sentence that derives the advantage of the turn into a node (`tree.advantages`)."""
    node = nodes[place]
    before = nodes[node["parent"]]["value"]
    gain = f"{node['reward']:+.2f} {node['value']:+.3f} - {before:.3f}"
    shared = f" / {node['visits']}" if by_visits else ""
    return (
        f"The critic gives the state before this turn {before:.3f} and the state after it "
        f"{node['value']:.3f}; the reward is {node['reward']:+.2f} and {node['visits']} complete "
        f"consultations share the turn: credit ({gain}){shared} = {node['advantage']:+.2f}."
    )


def table(nodes: Sequence[dict], taken: int) -> str:
    """The branches at the state before a node as a Markdown table."""
    found = [(nodes[i], i == taken) for i in branches(nodes, nodes[taken]["parent"])]
    return render("branches.md", branches=found, said=_said)


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
