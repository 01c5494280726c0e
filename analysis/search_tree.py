"""A picture of one tree that a run searched: kept and pruned branches, values, visits."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from analysis.drawing.boxes import INK, box, canvas, wrapped, write
from analysis.drawing.style import encode, house_style
from pcqc.config import Study
from pcqc.errors import UserError
from pcqc.files import read_jsonl, write_atomic
from pcqc.paths import Paths

NAME = "search_tree.svg"
MOST_NODES = 48  # of a tree that is still legible
BOX, STEP, ROW, TOP = 2.05, 2.4, 0.5, 0.6  # inches
STATE = ("#e3eef7", "#0072b2")
PRUNED = ("#f5f5f5", "#b5b5b5")
RIGHT = ("#e4f3ee", "#009e73")
WRONG = ("#fbe9df", "#d55e00")


def draw_run(study: Study, method: str, run: str) -> Path:
    """Draw a tree of a finished run beside its record; the picture's path.

    Raises:
        UserError: the method searches no tree, or the run has not recorded any.
    """
    if study.method(method).tree is None:
        raise UserError(f"'{method}' searches no tree; only methods with `tree` settings do")
    study.seed(run)
    folder = Paths.of(study).run(method, run)
    rows = [row for _, row in read_jsonl(folder / "trees.jsonl")]
    if not rows:
        raise UserError(f"{folder}/trees.jsonl: no tree there; train the run first")
    title = f"{study.method(method).title}, run {run}"
    with house_style():
        write_atomic(folder / NAME, encode(draw(chosen(rows), title), "svg"))
    return folder / NAME


def chosen(rows: Sequence[dict]) -> dict:
    """The largest tree that is legible, the latest among equals; else the smallest."""
    legible = [row for row in rows if len(row["nodes"]) <= MOST_NODES]
    if not legible:
        return min(rows, key=lambda row: len(row["nodes"]))
    return max(legible, key=lambda row: (len(row["nodes"]), row["update"]))


def draw(row: dict, title: str) -> Figure:
    """The tree of a row of trees.jsonl, from left to right, one column per turn."""
    nodes = row["nodes"]
    heights = _heights(nodes)
    lowest, deepest = max(heights), max(node["depth"] for node in nodes)
    height = TOP + (lowest + 1) * ROW + 0.35
    figure, ax = canvas(0.3 + deepest * STEP + BOX + 0.1, height)
    _head(ax, row, title, height)
    for i, node in enumerate(nodes):
        left, middle = 0.2 + node["depth"] * STEP, height - TOP - (heights[i] + 0.5) * ROW
        if node["parent"] is not None:
            start = height - TOP - (heights[node["parent"]] + 0.5) * ROW
            _edge(ax, left, start, middle, node)
        box(ax, left, middle - 0.21, BOX, 0.42, _words(node), _look(node))
    write(
        ax, 0.2, 0.17, "V critic's value   V̂ backed up   n visits   A advantage of the turn   "
        "U uncertainty   dashed: pruned", "left", color="#555555",
    )  # fmt: skip
    return figure


def _head(ax, row: dict, title: str, height: float) -> None:
    options = ",  ".join(f"{label} {text}" for label, text in row["options"].items())
    first = f"{title}, update {row['update']}, case {row['case_id']}"
    write(ax, 0.2, height - 0.18, first, "left", fontweight="bold")
    answer = f"{wrapped(row['initial'], 60, 1)}  {options};  correct: {row['answer_label']}"
    write(ax, 0.2, height - 0.4, wrapped(answer, 150, 1), "left")


def _edge(ax, left: float, start: float, end: float, node: dict) -> None:
    """From the parent's right side to the node's left side; dashed where the branch was pruned."""
    gone = node["pruned"] and not node["terminal"]
    middle = left - (STEP - BOX) / 2
    ax.plot(
        [left - STEP + BOX, middle, middle, left],
        [start, start, end, end],
        color="#b5b5b5" if gone else INK,
        linewidth=0.9,
        linestyle="--" if gone else "-",
        zorder=0,
    )


def _words(node: dict) -> str:
    """What was said to get here, and the node's numbers."""
    if node["parent"] is None:
        said = "initial state"
    elif node["ending"] in ("answer", "invalid_answer"):
        said = f"Final answer {node['predicted'] or '(not valid)'}"
    else:
        said = node["question"] or "(no question)"
    said = wrapped(said, 40, 1)
    numbers = [f"r {node['reward']:+.0f}"] if node["terminal"] else [f"V {node['value']:.2f}"]
    if node["visits"] and not node["terminal"]:
        numbers += [f"V̂ {node['backed_up']:.2f}", f"n {node['visits']}"]
    if node["visits"] and node["parent"] is not None:
        numbers.append(f"A {node['advantage']:+.2f}")
    if node["uncertainty"] is not None:
        numbers.append(f"U {node['uncertainty']:.2f}")
    return f"{said}\n{'  '.join(numbers)}"


def _look(node: dict) -> tuple[str, str]:
    if node["terminal"]:
        return RIGHT if node["reward"] > 0 else WRONG
    return PRUNED if node["pruned"] else STATE


def _heights(nodes: Sequence[dict]) -> list[float]:
    """Row of each node: leaves one below the other, a parent in the middle of its children."""
    children: list[list[int]] = [[] for _ in nodes]
    for i, node in enumerate(nodes):
        if node["parent"] is not None:
            children[node["parent"]].append(i)
    heights, rows = [0.0] * len(nodes), 0
    for i in _post_order(children):
        if children[i]:
            heights[i] = (heights[children[i][0]] + heights[children[i][-1]]) / 2
        else:
            heights[i], rows = float(rows), rows + 1
    return heights


def _post_order(children: Sequence[Sequence[int]], node: int = 0) -> list[int]:
    """Every node after its children, siblings in order."""
    return [i for child in children[node] for i in _post_order(children, child)] + [node]
