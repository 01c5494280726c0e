"""ATPO's rule, computed a second time from its description, on searched trees.

The description: breadth first; a level samples 4 responses per state, or 1 where the trajectories
so far and 4 per state might exceed the budget. U = 0.3 U2 + 0.7 U1 decides whether one child alone
is kept. A pruned end counts in the backup; it is no trajectory, no visit, and takes no budget. U2
is standardised with statistics that are frozen in an update and pooled over its nodes.
"""

from statistics import fmean, pstdev

import pytest
from helpers import make_case
from tree_material import SAYS, Critic, make_context

from pcqc.methods.atpo.search_and_pruning import search_trees
from pcqc.methods.atpo.settings import TreeSearch
from pcqc.methods.atpo.trajectories import trajectories
from pcqc.methods.sequences import TERMINAL
from turn_credit.tree import RunningVariance, atpo, back_up, visits

CASES = [make_case(i) for i in range(4)]
# Early ends are common here, so that many of them are pruned.
ENDING_SOON = (*SAYS, "Final Answer: B", "Final Answer: C")
REWARDS = {"B": 3.0, "A": 0.0, "C": 0.0, None: -1.0}


def below(nodes, i):
    """A node's trajectories: ends that were kept, counted by walking down."""
    if nodes[i].terminal:
        return 0 if nodes[i].pruned else 1
    return sum(below(nodes, child) for child in nodes[i].children)


def backed_up(nodes, i):
    """Mean over known children of reward and what follows; None where a state was not followed."""
    if nodes[i].terminal:
        return 0.0
    after = [(nodes[c].reward, backed_up(nodes, c)) for c in nodes[i].children]
    known = [reward + value for reward, value in after if value is not None]
    return fmean(known) if known else None


def variance(nodes, i):
    q = [nodes[c].reward + nodes[c].value for c in nodes[i].children]
    return pstdev(q) ** 2, abs(nodes[i].value - fmean(q))


def check_search(search, known, budget, threshold):
    """One tree against the description; returns (depth, variance) of its decided states."""
    nodes, decided = search.tree.nodes, []
    level, depth = [0], 0
    done = 0
    while level:
        asked = 4 if done + 4 * len(level) <= budget else 1
        following = []
        for i in level:
            node = nodes[i]
            assert len(node.children) == asked
            kept = [c for c in node.children if not nodes[c].pruned]
            if asked == 1:
                assert node.uncertainty is None
                assert len(kept) == 1
            else:
                spread, surprise = variance(nodes, i)
                decided.append((depth, spread))
                mean, deviation = known.get(depth, known.get("all", (0.0, 1.0 - 1e-7)))
                u = 0.3 * (spread - mean) / (deviation + 1e-7) + 0.7 * surprise
                assert node.uncertainty == pytest.approx(u, rel=1e-9, abs=1e-9)
                assert len(kept) == (1 if u < threshold else 4)
            done += sum(nodes[c].terminal for c in kept)
            following += [c for c in kept if not nodes[c].terminal]
        level, depth = following, depth + 1
    assert done == len(search.trajectories) <= budget
    return decided


@pytest.mark.parametrize(("budget", "threshold"), [(128, 0.6), (8, 0.4), (24, 1.2)])
def test_searches_follow_the_description(budget, threshold):
    rules = TreeSearch(budget=budget, threshold=threshold, prune_probability=1.0)
    memory, known, pruned_ends = {}, {}, 0
    for update in range(4):
        searches = search_trees(
            make_context(ENDING_SOON),
            Critic(),
            rules,
            CASES,
            RunningVariance(memory, 0.4),
            f"{budget}/update/{update}",
        )
        decided = [d for s in searches for d in check_search(s, known, budget, threshold)]
        levels = {depth: [v for d, v in decided if d == depth] for depth, _ in decided}
        for name, variances in [*levels.items(), ("all", [v for _, v in decided])]:
            new, old = (fmean(variances), pstdev(variances)), known.get(name)
            known[name] = tuple(
                n if old is None else 0.4 * n + 0.6 * o
                for n, o in zip(new, old or new, strict=True)
            )
        assert set(memory) == {str(name) for name in known}
        for name, (mean, deviation) in known.items():
            assert memory[str(name)] == pytest.approx([mean, deviation])
        for search in searches:
            check_credit(search)
            pruned_ends += sum(node.terminal and node.pruned for node in search.tree.nodes)
    assert pruned_ends > 0


def check_credit(search):
    nodes, reached = search.tree.nodes, visits(search.tree)
    targets, scores = back_up(search.tree), atpo(search.tree)
    for i, node in enumerate(nodes):
        assert reached[i] == below(nodes, i)
        if (value := backed_up(nodes, i)) is not None:
            assert targets[i] == pytest.approx(value)
        if node.terminal:
            assert node.reward == REWARDS[search.dialogues[i].consultation.predicted]
        gain = node.reward + node.value - nodes[node.parent].value if i else 0.0
        assert scores[i] == pytest.approx(gain / reached[i] if reached[i] else 0.0)
    trained = [i for i, node in enumerate(nodes) if node.terminal and not node.pruned]
    assert [path[-1] for _, path in search.trajectories] == trained
    made = trajectories(search, TreeSearch())
    for t, (consultation, path) in zip(made, search.trajectories, strict=True):
        term = t.actor[0].terms[TERMINAL]
        first = len(consultation.turns[0].state)
        assert term.advantages[first] == pytest.approx(scores[path[1]])
