"""Token trees: shared context is computed once, and nothing else changes."""

from itertools import pairwise, product

import numpy as np
import pytest
import torch
from helpers import plain_logprobs, tiny_model
from learner_material import COEFFICIENTS, updated

from pcqc.methods.sequences import QUESTION, TERMINAL
from pcqc.training import token_trees
from pcqc.training.batching import SelectedTokens, TokenModel
from pcqc.training.token_trees import TokenTree, merge_prefixes, pad_token_trees
from pcqc.training.training_sequence import KL, Term, TrainingSequence
from pcqc_gpu.measure import update_flops
from pcqc_gpu.planning.architecture import KNOWN


def branching() -> list[TrainingSequence]:
    """Sequences as a case makes them: one prompt, several consultations, candidates at a state."""
    rng, made = np.random.default_rng(0), []
    for _ in range(3):
        prompt = rng.integers(3, 120, 14).tolist()
        state = prompt + rng.integers(3, 120, 6).tolist()
        starts = [prompt, prompt, state, state, state, state]
        for i, start in enumerate(starts):
            tokens = start + rng.integers(3, 120, int(rng.integers(3, 9))).tolist()
            term = Term.zeros(len(tokens))
            term.select(len(start), len(tokens), float(rng.normal()))
            kind = {QUESTION: term} if i > 2 else {TERMINAL: term, KL: term}
            made.append(TrainingSequence(tokens, kind, np.zeros(len(tokens))))
    return made


def test_every_member_is_spelled_by_its_path():
    sequences = branching()
    grown = merge_prefixes(sequences, 4096, "cpu")
    members = [m for tree in grown for m in tree.members]
    assert sorted(m.tokens for m in members) == sorted(s.tokens for s in sequences)
    for tree in grown:
        for member, path in zip(tree.members, tree.paths, strict=True):
            assert [tree.tokens[node] for node in path] == member.tokens
            assert [tree.positions[node] for node in path] == list(range(len(path)))


def test_shared_tokens_are_computed_once():
    sequences = branching()
    laid = sum(len(tree.tokens) for tree in merge_prefixes(sequences, 4096, "cpu"))
    assert laid < 0.6 * sum(len(s.tokens) for s in sequences)


def test_trees_do_not_depend_on_the_order_of_sequences():
    sequences = branching()
    forwards = [tree.tokens for tree in merge_prefixes(sequences, 4096, "cpu")]
    backwards = [tree.tokens for tree in merge_prefixes(sequences[::-1], 4096, "cpu")]
    assert forwards == backwards


def test_a_tree_keeps_to_its_size():
    for device in ("cpu", "cuda"):
        for tree in merge_prefixes(branching(), 40, device):
            assert len(tree.tokens) <= 40 or len(tree.members) == 1


def grown_by(lengths: list[int], shared: list[int]) -> list[SelectedTokens]:
    """Sequences in order, each of which shares so many tokens with the one before."""
    made: list[list[int]] = []
    for number, (length, same) in enumerate(zip(lengths, shared, strict=True)):
        kept = made[-1][:same] if made else []
        made.append([*kept, *[number] * (length - same)])
    return [SelectedTokens(tokens, np.ones(len(tokens), bool)) for tokens in made]


def members(trees: list[TokenTree]) -> list[int]:
    return [len(tree.members) for tree in trees]


def test_block_masks_merge_whatever_is_shared():
    """Ten tokens, three of them shared: too few for a dense mask, and twice the first's length."""
    trio = grown_by([10, 10, 10], [0, 3, 3])
    assert members(merge_prefixes(trio, 100, "cpu")) == [1, 1, 1]
    assert members(merge_prefixes(trio, 100, "cuda")) == [3]


def test_block_masks_cut_where_least_is_shared():
    """Filled in order, the first tree would take in a sequence of the second group."""
    groups = grown_by([10, 10, 10, 10], [0, 8, 1, 8])
    assert members(merge_prefixes(groups, 21, "cuda")) == [2, 2]
    assert members(merge_prefixes(grown_by([10, 10], [0, 0]), 100, "cuda")) == [1, 1]


@pytest.mark.parametrize("seed", range(2))
def test_no_cut_has_fewer_flops_under_block_masks(seed):
    """Of the paper's model; every cut of eight sequences is tried."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(5, 30, 8).tolist()
    shared = [0, *(int(rng.integers(min(pair))) for pair in pairwise(lengths))]
    sequences = grown_by(lengths, shared)

    def flops(trees: list[TokenTree]) -> float:
        return update_flops(KNOWN["Qwen3-8B"], trees, passes=1)

    every = []
    for joined in product((False, True), repeat=7):
        trees: list[TokenTree] = []
        for sequence, joins, same in zip(sequences, (False, *joined), shared, strict=True):
            trees += [] if joins else [TokenTree()]
            trees[-1].add(sequence, same if joins else 0)
        if all(len(tree.tokens) <= 60 for tree in trees):
            every.append(flops(trees))
    # Attention is a thousandth of it at these lengths; of cuts with as many nodes any may be found.
    assert flops(merge_prefixes(sequences, 60, "cuda")) <= 1.001 * min(every)


def test_logprobs_are_those_of_the_sequences_alone():
    model = tiny_model(0)
    grown = merge_prefixes(branching(), 4096, "cpu")
    members = [m for tree in grown for m in tree.members]
    selected = [np.arange(len(m.tokens)) > 0 for m in members]
    with torch.no_grad():
        together = TokenModel(model)(pad_token_trees(grown, selected, "cpu"))
        alone = torch.cat(
            [
                plain_logprobs(model, m.tokens)[range(len(m.tokens) - 1), m.tokens[1:]]
                for m in members
            ]
        )
    torch.testing.assert_close(together.double(), alone, atol=1e-5, rtol=0)


def test_gradients_are_those_without_sharing(monkeypatch):
    report, shared = updated(branching())
    monkeypatch.setattr(token_trees, "SHARED_PART", 2.0)
    assert len(merge_prefixes(branching(), 4096, "cpu")) == len(branching())
    apart, gradient = updated(branching())
    torch.testing.assert_close(shared, gradient, atol=1e-6, rtol=1e-5)
    assert report.losses.keys() == apart.losses.keys() == COEFFICIENTS.keys()
