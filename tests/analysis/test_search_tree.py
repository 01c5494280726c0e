"""The picture of a searched tree: which tree, what stands at its nodes, the same bytes twice."""

from analysis.drawing.style import encode, house_style
from analysis.search_tree import MOST_NODES, chosen, draw

NODE = {
    "reward": 0.0,
    "value": 0.5,
    "terminal": False,
    "uncertainty": None,
    "pruned": False,
    "backed_up": 1.0,
    "visits": 1,
    "advantage": 0.25,
    "response": "",
    "question": "Any cough?",
    "answer": "No.",
    "predicted": None,
    "ending": None,
}


def row(update: int = 1, extra: int = 0) -> dict:
    """A root with a pruned child, a right answer, a chain to a wrong one, and more leaves."""
    end = {"terminal": True, "ending": "answer", "question": None}
    nodes = [
        {**NODE, "parent": None, "depth": 0, "question": None, "uncertainty": 0.7, "visits": 2},
        {**NODE, "parent": 0, "depth": 1, "pruned": True, "visits": 0, "question": "Pruned?"},
        {**NODE, "parent": 0, "depth": 1, **end, "reward": 3.0, "predicted": "B"},
        {**NODE, "parent": 0, "depth": 1},
        {**NODE, "parent": 3, "depth": 2, **end, "predicted": "A"},
    ]
    nodes += [{**NODE, "parent": 0, "depth": 1, "question": f"Extra {i}?"} for i in range(extra)]
    return {
        "update": update,
        "case_id": "case-1",
        "initial": "Fever for $3 days.",
        "options": {"A": "flu", "B": "cold"},
        "answer_label": "B",
        "nodes": nodes,
    }


def texts(figure) -> list[str]:
    return [text.get_text() for text in figure.axes[0].texts]


def test_every_node_says_what_was_asked_and_its_numbers():
    with house_style():
        shown = texts(draw(row(), "ATPO, run A"))
    assert "Pruned?\nV 0.50" in shown
    assert "Final answer B\nr +3  A +0.25" in shown
    assert "Any cough?\nV 0.50  V̂ 1.00  n 1  A +0.25" in shown
    assert "initial state\nV 0.50  V̂ 1.00  n 2  U 0.70" in shown
    assert any("ATPO, run A, update 1, case case-1" in text for text in shown)
    assert any("correct: B" in text for text in shown)


def test_boxes_do_not_overlap():
    with house_style():
        figure = draw(row(extra=6), "ATPO, run A")
    places = [patch.get_window_extent() for patch in figure.axes[0].patches]
    assert len(places) == 11
    assert not any(a.overlaps(b) for i, a in enumerate(places) for b in places[:i])


def test_the_largest_legible_tree_is_drawn_the_latest_of_equals():
    rows = [row(1), row(2, 3), row(3, 3), row(4, MOST_NODES)]
    assert chosen(rows)["update"] == 3
    assert chosen([row(4, MOST_NODES), row(5, MOST_NODES + 1)])["update"] == 4


def test_the_same_tree_is_the_same_bytes():
    with house_style():
        first, second = (encode(draw(row(), "ATPO"), "svg") for _ in range(2))
    assert first == second
