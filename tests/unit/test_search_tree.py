"""The picture of a searched tree: which tree, and what its nodes say."""

from xml.etree import ElementTree

from pcqc.tracking.search_tree import MOST_NODES, chosen, draw

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


def parsed(tree: dict) -> list:
    return list(ElementTree.fromstring(draw(tree, "ATPO, run <A>")).iter())


def texts(tree: dict) -> list[str]:
    return [element.text for element in parsed(tree) if element.tag.endswith("text")]


def test_every_node_says_what_was_asked_and_its_numbers():
    shown = texts(row())
    assert shown[0] == "ATPO, run <A>, update 1, case case-1"
    assert shown[1] == "Fever for $3 days. Options: A flu, B cold; correct: B"
    nodes = list(zip(shown[2:12:2], shown[3:12:2], strict=True))
    assert nodes[0] == ("initial state", "V 0.50 · V̂ 1.00 · n 2 · U 0.70")
    assert nodes[1] == ("Pruned?", "V 0.50")
    assert nodes[2] == ("Final answer B", "r +3 · A +0.25")
    assert nodes[3] == ("Any cough?", "V 0.50 · V̂ 1.00 · n 1 · A +0.25")
    assert {"kept", "pruned", "correct answer", "wrong or no answer"} <= set(shown)


def test_boxes_do_not_overlap():
    boxes = [e.attrib for e in parsed(row(extra=6)) if e.get("width") == "200"]
    places = [(float(box["x"]), float(box["y"])) for box in boxes]
    assert len(places) == 11
    for i, (left, top) in enumerate(places):
        assert all(abs(left - x) >= 200 or abs(top - y) >= 38 for x, y in places[:i])


def test_the_largest_legible_tree_is_drawn_the_latest_of_equals():
    rows = [row(1), row(2, 3), row(3, 3), row(4, MOST_NODES)]
    assert chosen(rows)["update"] == 3
    assert chosen([row(4, MOST_NODES), row(5, MOST_NODES + 1)])["update"] == 4
