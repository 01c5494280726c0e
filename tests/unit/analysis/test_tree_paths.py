"""The way of a consultation through a searched tree."""

from analysis.transcripts.candidates import path_of


def node(parent, response, visits):
    return {"parent": parent, "response": response, "visits": visits}


NODES = [
    node(None, None, 3),
    node(0, "Any fever?", 0),  # pruned: another branch asks the same
    node(0, "Any fever?", 3),
    node(2, "Final Answer: A", 1),
    node(2, "Final Answer: B", 2),
]


def test_of_equal_responses_the_branch_that_the_consultation_went_on_from_is_taken():
    assert path_of(NODES, ["Any fever?", "Final Answer: B"]) == [2, 4]
    assert path_of(NODES, ["Any fever?"]) == [2]


def test_a_consultation_of_another_tree_has_no_path():
    assert path_of(NODES, ["Any rash?", "Final Answer: B"]) == []
    assert path_of([], ["Any fever?"]) == []
