"""Token trees: shared context is computed once, and nothing else changes."""

import numpy as np
import torch
from helpers import plain_logprobs, tiny_model
from learner_material import COEFFICIENTS, updated

from pcqc.methods.sequences import QUESTION, TERMINAL
from pcqc.training import token_trees
from pcqc.training.batching import TokenModel
from pcqc.training.sequences import KL, Term, TrainingSequence
from pcqc.training.token_trees import merge_prefixes, pad_token_trees


def branching(seed: int = 0) -> list[TrainingSequence]:
    """Sequences as a case makes them: one prompt, several consultations, candidates at a state."""
    rng = np.random.default_rng(seed)
    made = []
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
    grown = merge_prefixes(sequences, 4096)
    members = [m for tree in grown for m in tree.members]
    assert sorted(m.tokens for m in members) == sorted(s.tokens for s in sequences)
    for tree in grown:
        for member, path in zip(tree.members, tree.paths, strict=True):
            assert [tree.tokens[node] for node in path] == member.tokens
            assert [tree.positions[node] for node in path] == list(range(len(path)))


def test_shared_tokens_are_computed_once():
    sequences = branching()
    laid = sum(len(tree.tokens) for tree in merge_prefixes(sequences, 4096))
    assert laid < 0.6 * sum(len(s.tokens) for s in sequences)


def test_trees_do_not_depend_on_the_order_of_sequences():
    sequences = branching()
    there = [tree.tokens for tree in merge_prefixes(sequences, 4096)]
    back = [tree.tokens for tree in merge_prefixes(sequences[::-1], 4096)]
    assert there == back


def test_a_tree_keeps_to_its_size():
    for tree in merge_prefixes(branching(), most_nodes=40):
        assert len(tree.tokens) <= 40 or len(tree.members) == 1


def test_logprobs_are_those_of_the_sequences_alone():
    model = tiny_model(0)
    grown = merge_prefixes(branching(), 4096)
    members = [m for tree in grown for m in tree.members]
    selected = [np.arange(len(m.tokens)) > 0 for m in members]
    with torch.no_grad():
        found = TokenModel(model)(pad_token_trees(grown, selected, "cpu"))
        alone = torch.cat(
            [
                plain_logprobs(model, m.tokens)[range(len(m.tokens) - 1), m.tokens[1:]]
                for m in members
            ]
        )
    torch.testing.assert_close(found.double(), alone, atol=1e-5, rtol=0)


def test_gradients_are_those_without_sharing(monkeypatch):
    report, shared = updated(branching())
    monkeypatch.setattr(token_trees, "SHARED_PART", 2.0)
    assert len(merge_prefixes(branching(), 4096)) == len(branching())
    apart, gradient = updated(branching())
    torch.testing.assert_close(shared, gradient, atol=1e-6, rtol=1e-5)
    assert report.losses.keys() == apart.losses.keys() == COEFFICIENTS.keys()
