"""What the package promises beside its formulas: the record, the registry, tokens."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import turn_credit
from turn_credit import CREDITS, Group, ProcessGroup, Term, Tree, credit_update, token_advantages

PACKAGE = Path(__file__).parents[1]
# Two consultations, of three turns and of two; at two states candidates were sampled.
FULL = ProcessGroup(
    rewards=[0, 1],
    beliefs=[[0.2, 0.5, 0.4], [0.2, 0.8]],
    values=[[0.5, 0.75, 0.5], [0.5, 1.0]],
    states=[["opening", "x", "xy"], ["opening", "y"]],
    tokens=[[4, 3, 5], [2, 4]],
    critiques=[[1, -1, 0], [1, 0]],
    implicit=[[0.1, 0.2, 0.3], [0.7, 0.3]],
    shifts=[[0.5, -0.2, 0], [0.8, 0]],
    turn_rewards=[[0.1, None, 0], [0.2, 1]],
    utilities=[[0.5, 0.2, 0.3], [0.4, 0.9]],
    baselines=[0.2, 0.5],
    continued=[[1, 0, 0], [0, 1]],
    expected=[[0.5, 0.2, 0.3], [0.4, 0.9]],
)


@pytest.mark.parametrize("name", CREDITS)
def test_a_credit_has_a_number_for_each_turn_candidate_or_node(name):
    entry = CREDITS[name]
    if entry.of == "nodes":
        tree = Tree()
        tree.add(tree.add(None, value=0.5), reward=1.0, terminal=True)
        assert entry(tree).tolist() == [0, 0.5]
        return
    credits = entry(FULL)
    lengths = FULL.lengths if entry.of == "turns" else [3, 2]
    assert [len(row) for row in credits] == lengths
    assert all(np.isfinite(row).all() and row.any() for row in credits)


@pytest.mark.parametrize("name", [n for n, entry in CREDITS.items() if entry.of != "nodes"])
def test_what_a_credit_needs_and_lacks_is_named(name):
    if name == "grpo":
        assert [row.tolist() for row in CREDITS[name](Group([1], turns=[2]))] == [[0, 0]]
        return
    needed = CREDITS[name].section("Needs").split()[0].strip(":,")
    with pytest.raises(ValueError, match=f"needs `{needed}`"):
        CREDITS[name](ProcessGroup([0, 1], turns=[3, 2]))


def test_an_update_is_compared_as_one_group_where_the_credit_says_so():
    groups = [Group([0], values=[[0.5, 0.75]]), Group([1], values=[[0.5, 1.0]])]
    ((first,), (second,)) = credit_update("vineppo", groups)
    # Changes 0.25, -0.75 | 0.5, 0.0: mean 0, sample deviation sqrt(0.875 / 3).
    assert [*first, *second] == pytest.approx([0.46291, -1.38873, 0.92582, 0.0], abs=1e-5)
    alone = credit_update("igpo", [FULL, FULL])
    assert [row.tolist() for row in alone[0]] == [row.tolist() for row in alone[1]]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"rewards": [0, 1], "beliefs": [[0.5]]}, "beliefs of 1 consultations beside 2 rewards"),
        ({"rewards": [0], "beliefs": [[0.5]], "turns": [2]}, "turns .*2.*, beliefs .*1"),
        ({"utilities": [[0.1, 0.2]], "continued": [[1]]}, "utilities .*2.*, continued .*1"),
        ({"utilities": [[0.1, 0.2]], "baselines": [0, 0]}, "2 baselines beside utilities of 1"),
        ({"rewards": [0], "turns": [2], "critiques": [[1]]}, r"turns \[2\], critiques \[1\]"),
        ({"rewards": [0], "tokens": [[1]], "shifts": [[1, 2]]}, r"tokens \[1\], shifts \[2\]"),
        ({"rewards": [0, 1], "implicit": [[1]]}, "implicit of 1 consultations beside 2 rewards"),
    ],
)
def test_lengths_that_disagree_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        ProcessGroup(**fields)


def test_each_term_is_a_mean_over_its_own_tokens():
    """eq:pcqc_objective, worked out by hand: 6 tokens with A_T, 2 of them and 1 more with A_Q."""
    terminal = Term([(0, 1, 4), (1, 0, 3)], [1.0, -1.0])
    question = Term([(0, 2, 4), (2, 3, 4)], [2.0, -2.0], weight=0.5)
    advantages = token_advantages((3, 4), [terminal, question])
    # N = 7, N_T = 6, N_Q = 3.
    t, q = 7 / 6, 0.5 * 7 / 3
    expected = [[0, t, t + 2 * q, t + 2 * q], [-t, -t, -t, 0], [0, 0, 0, -2 * q]]
    np.testing.assert_allclose(advantages, expected)
    losses = np.random.default_rng(0).normal(size=(3, 4))  # minus the log-probabilities
    own = (losses[0, 1:].sum() - losses[1, :3].sum()) / 6
    own += 0.5 * (2 * losses[0, 2:].sum() - 2 * losses[2, 3]) / 3
    assert (advantages * losses).sum() / 7 == pytest.approx(own)
    assert token_advantages((3, 4), [terminal], tokens=12)[0, 1] == pytest.approx(2)


def test_a_span_outside_the_batch_is_refused():
    with pytest.raises(ValueError, match="leaves a batch"):
        token_advantages((1, 4), [Term([(0, 2, 5)], [1.0])])


README = (PACKAGE / "README.md").read_text(encoding="utf-8")


def test_the_readmes_table_is_that_of_the_docstrings():
    assert turn_credit.table() in README


SHOWN = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", README, re.S)


@pytest.mark.parametrize(("code", "output"), SHOWN)
def test_the_readmes_lines_print_what_it_says(code, output):
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (ran.stdout, ran.stderr) == (output, "")


def test_the_package_has_the_licence_of_the_repository():
    own, whole = PACKAGE / "LICENSE", PACKAGE.parents[1] / "LICENSE"
    assert not whole.exists() or own.read_bytes() == whole.read_bytes()
