"""Token trees: sequences with a common beginning, merged so that it is computed once.

The consultations of one case share their prompt, and the candidates of one state its whole history.
Merged into a tree in which each token attends to its ancestors alone, every token has exactly the
context it had in its own sequence, so probabilities and gradients are those of the sequences one by
one (up to rounding), for a fraction of the work.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from pcqc.training.batching import HasTokens, Padded
from pcqc.training.tree_attention import padded_length, tree_mask

# A sequence joins a tree when it shares at least this part of its tokens with the sequence before,
# and while the tree is at most so many times as large as its first sequence: attention over a tree
# costs its square.
SHARED_PART = 0.5
LARGEST_TREE = 4


@dataclass
class TokenTree:
    """Merged sequences.

    Attributes:
        tokens: token of each node, parents before children.
        positions: number of ancestors of each node.
        members: the sequences.
        paths: per member, int64 [its tokens]: the node of each of its tokens.
    """

    tokens: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    members: list[HasTokens] = field(default_factory=list)
    paths: list[np.ndarray] = field(default_factory=list)

    def add(self, sequence: HasTokens, shared: int) -> None:
        """Add a sequence whose first `shared` tokens are those of the member added last."""
        new = sequence.tokens[shared:]
        first = len(self.tokens)
        inherited = self.paths[-1][:shared] if shared else np.empty(0, np.int64)
        self.tokens.extend(new)
        self.positions.extend(range(shared, len(sequence.tokens)))
        self.members.append(sequence)
        self.paths.append(np.concatenate([inherited, np.arange(first, first + len(new))]))


def merge_prefixes(sequences: Sequence[HasTokens], most_nodes: int) -> list[TokenTree]:
    """Merge sequences into trees of at most `most_nodes` nodes.

    A longer sequence is a tree of its own. The trees do not depend on the order of the sequences.
    """
    trees: list[TokenTree] = []
    for sequence in sorted(sequences, key=lambda s: s.tokens):
        tree = trees[-1] if trees else None
        shared = _shared(tree.members[-1].tokens, sequence.tokens) if tree else 0
        fits = tree and len(tree.tokens) + len(sequence.tokens) - shared <= min(
            most_nodes, LARGEST_TREE * len(tree.members[0].tokens)
        )
        if not fits or shared < SHARED_PART * len(sequence.tokens):
            tree, shared = TokenTree(), 0
            trees.append(tree)
        tree.add(sequence, shared)
    return trees


def _shared(one: Sequence[int], other: Sequence[int]) -> int:
    """Number of tokens that both begin with."""
    count = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        count += 1
    return count


def pad_token_trees(trees: Sequence[TokenTree], selected: Sequence[np.ndarray], device) -> Padded:
    """Trees side by side.

    Args:
        trees: one without members has no token scored.
        selected: per member of each tree in turn, bool [its tokens]: tokens to be scored. A node is
            scored once for every member that selects it.
    """
    width = padded_length(max(len(tree.tokens) for tree in trees), device)
    ids = np.zeros((len(trees), width), np.int64)
    positions = np.zeros_like(ids)
    # Nodes are in depth-first order, so a node's descendants follow it, up to its last. A token of
    # padding sees itself, since an empty row has no softmax.
    last = np.tile(np.arange(width), (len(trees), 1))
    places, wanted = [np.empty((3, 0), np.int64)], iter(selected)
    for row, tree in enumerate(trees):
        ids[row, : len(tree.tokens)] = tree.tokens
        positions[row, : len(tree.tokens)] = tree.positions
        for path in tree.paths:
            last[row, path] = path[-1]
            chosen = np.nonzero(next(wanted))[0]
            rows = np.full(len(chosen), row)
            places.append(np.stack([rows, path[chosen], path[chosen - 1]]))
    arrays = (ids, last, *np.concatenate(places, axis=1), positions)
    tensor_ids, descendants, *others = (torch.from_numpy(array).to(device) for array in arrays)
    return Padded(tensor_ids, tree_mask(descendants), *others)


def empty_batch(device) -> Padded:
    """A micro-batch of one token, with none selected."""
    return pad_token_trees([TokenTree([0], [0])], [], device)
