"""The tree of ATPO in numbers: trees built by hand; `test_atpo_rule.py` checks searched ones."""

import pytest

from turn_credit.tree import (
    RunningVariance,
    Tree,
    atpo,
    back_up,
    uncertainty,
    visits,
    width,
)


def grow(root: float, *nodes) -> Tree:
    """A tree from (parent, value or None where terminal, reward, pruned) rows; node 0 is given."""
    tree = Tree()
    tree.add(None, value=root)
    for parent, value, reward, pruned in nodes:
        ended = value is None
        tree.add(parent, value=value or 0.0, reward=reward, terminal=ended, pruned=pruned)
    return tree


def check(tree, backed_up, counts, scores):
    assert back_up(tree) == pytest.approx(backed_up, abs=1e-6)
    assert visits(tree).tolist() == counts
    assert atpo(tree) == pytest.approx(scores, abs=1e-6)


def test_a_tree_with_early_finishes_at_each_depth():
    """Below the root: a wrong answer, a state that ends right or goes on, and a right answer."""
    tree = grow(
        1.0,
        (0, None, 0.0, False),  # 1
        (0, 0.5, 0.0, False),  # 2
        (0, None, 3.0, False),  # 3
        (2, None, 3.0, False),  # 4
        (2, 2.0, 0.0, False),  # 5
        (5, None, -1.0, False),  # 6
    )
    # 5: -1; 2: (3 - 1) / 2 = 1; root: (0 + 1 + 3) / 3.
    check(
        tree,
        [4 / 3, 0, 1, 0, 0, -1, 0],
        [4, 1, 2, 1, 1, 1, 1],
        # 2: (0.5 - 1) / 2 visits; 5: 2 - 0.5; 6: -1 - 2.
        [0, -1.0, -0.25, 2.0, 2.5, 1.5, -3.0],
    )


def test_pruned_states_are_left_out_and_pruned_ends_count_in_the_backup():
    tree = grow(
        0.4,
        (0, 9.0, 0.0, True),  # 1, pruned: its value is a guess
        (0, None, 3.0, True),  # 2, pruned, but its value is known
        (0, 1.0, 0.0, False),  # 3
        (3, None, 0.0, False),  # 4
    )
    # The pruned end, 2, is in the root's 1.5, but is no visit and is not trained.
    check(tree, [1.5, 9, 0, 0, 0], [1, 0, 0, 1, 1], [0, 0, 0, 0.6, -1.0])


def test_a_state_with_only_pruned_children_keeps_the_critic_s_value():
    tree = grow(0.7, (0, 2.0, 0.0, True), (0, 1.0, 0.0, True))
    check(tree, [0.7, 2, 1], [0, 0, 0], [0, 0, 0])


def test_a_single_chain():
    tree = grow(0.5, (0, 1.5, 0.0, False), (1, None, 3.0, False))
    check(tree, [3, 3, 0], [1, 1, 1], [0, 1.0, 1.5])


def test_only_terminal_children():
    tree = grow(1.0, *[(0, None, r, False) for r in (3.0, 0.0, -1.0, 3.0)])
    check(tree, [1.25, 0, 0, 0, 0], [4, 1, 1, 1, 1], [0, 2, -1, -2, 2])


def test_an_end_at_the_root_has_value_zero():
    tree = Tree()
    tree.add(None, reward=-1.0, terminal=True)
    check(tree, [0], [1], [0])
    assert tree.leaves == []


def test_without_division_every_edge_has_its_whole_advantage():
    tree = grow(1.0, (0, 0.5, 0.0, False), (1, None, 3.0, False), (1, None, 0.0, False))
    assert atpo(tree, by_visits=False) == pytest.approx([0, -0.5, 2.5, -0.5])
    assert atpo(tree) == pytest.approx([0, -0.25, 2.5, -0.5])


# Below the root, a wrong end (1), a state (2) and a pruned state (3); 2 leads to 4 alone, and 4 to
# a right end (5) and to one without an answer (6).
FORKED = (
    (0, None, 0.0, False),
    (0, 0.5, 0.0, False),
    (0, 9.0, 0.0, True),
    (2, 2.0, 0.0, False),
    (4, None, 3.0, False),
    (4, None, -1.0, False),
)


@pytest.mark.parametrize(
    ("advantage", "scores"),
    [
        # V is 1, 0.5 and 2 at the root, 2 and 4. 2: (0.5 - 1) / 2 visits; 4: (2 - 0.5) / 2.
        ("critic", [0, -1.0, -0.25, 0, 0.75, 1.0, -3.0]),
        # Backed up: 4 is (3 - 1) / 2 = 1, so 2 is 1; the root is (0 + 1) / 2, without 3. The turn
        # into 4 has no sibling, so it is as above.
        ("critic_or_backed_up", [0, -0.5, 0.25, 0, 0.75, 2.0, -2.0]),
        # All less the root's 0.5; 2 and 4: (1 - 0.5) / 2 visits.
        ("backed_up", [0, -0.5, 0.25, 0, 0.25, 2.5, -1.5]),
        # After 2 and after 4 come 3 and -1, on average 1. 2: (1 - 1) / 2; 4: (1 - 0.5) / 2.
        ("return", [0, -1.0, 0.0, 0, 0.25, 1.0, -3.0]),
    ],
)
def test_advantages_of_one_tree(advantage, scores):
    tree = grow(1.0, *FORKED)
    assert atpo(tree, advantage=advantage) == pytest.approx(scores, abs=1e-9)
    whole = [score * max(count, 1) for score, count in zip(scores, visits(tree), strict=True)]
    assert atpo(tree, by_visits=False, advantage=advantage) == pytest.approx(whole, abs=1e-9)


def test_an_advantage_that_is_not_known_is_named():
    with pytest.raises(ValueError, match="advantage 'gae': must be one of critic, critic_or"):
        atpo(grow(1.0, *FORKED), advantage="gae")


def test_leaves_paths_and_action_values():
    tree = grow(1.0, (0, 0.5, 0.0, False), (0, 0.2, 0.0, True), (1, None, 3.0, False))
    assert tree.leaves == []
    tree.add(1, value=0.25)
    assert tree.leaves == [4]
    assert tree.path(4) == [0, 1, 4]
    assert [tree.nodes[i].depth for i in (0, 1, 4)] == [0, 1, 2]
    assert tree.action_values(1).tolist() == [3.0, 0.25]
    assert tree.completed == 1


@pytest.mark.parametrize(
    ("completed", "leaves", "expected"),
    [
        (0, 1, 4),
        (0, 4, 4),
        (0, 16, 4),
        (0, 32, 4),
        (1, 32, 1),
        (0, 64, 1),
        (124, 1, 4),
        (125, 1, 1),
    ],
)
def test_the_budget_of_128_narrows_a_level(completed, leaves, expected):
    assert width(completed, leaves, budget=128, candidates=4) == expected


def test_uncertainty_weighs_spread_and_surprise():
    values = [3.0, 0.0, 0.0, 1.0]
    assert uncertainty(0.2, values, 2.0, 0.3) == pytest.approx(0.3 * 2.0 + 0.7 * 0.8)
    assert uncertainty(0.2, values, 2.0, 0.0) == pytest.approx(0.8)
    assert uncertainty(0.2, values, 2.0, 1.0) == pytest.approx(2.0)


def test_running_statistics_are_pooled_and_frozen_until_absorbed():
    memory = {}
    statistics = RunningVariance(memory, 0.4)
    # Nothing is known: the variance itself.
    assert statistics.score(0, [0.5, 1.5]).tolist() == [0.5, 1.5]
    assert memory == {}
    statistics.absorb({0: [0.5, 1.5], 1: [4.0], 2: []})
    assert memory == {"0": [1.0, 0.5], "1": [4.0, 0.0], "all": [2.0, pytest.approx(1.4719601)]}
    # A level without statistics takes those of all.
    assert statistics.score(2, [3.0])[0] == pytest.approx(1 / 1.4719601, abs=1e-6)
    assert statistics.score(0, [1.7])[0] == pytest.approx((1.7 - 1.0) / 0.5, abs=1e-6)
    # The next update is mixed in at 0.4.
    statistics.absorb({0: [2.0, 2.0]})
    assert memory["0"] == pytest.approx([0.4 * 2 + 0.6 * 1, 0.6 * 0.5])
    assert memory["all"] == pytest.approx([0.4 * 2 + 0.6 * 2, 0.6 * 1.4719601])
    assert memory["1"] == [4.0, 0.0]
