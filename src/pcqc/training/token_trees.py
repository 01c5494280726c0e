"""Token trees: sequences with a common beginning, merged so that it is computed once.

The consultations of one case share their prompt, and the candidates of one state its whole history.
Merged into a tree in which each token attends to its ancestors alone, every token has exactly the
context it had in its own sequence, so probabilities and gradients are those of the sequences one by
one (up to rounding), for a fraction of the work.

How sequences are cut into trees follows from counted FLOPs. Where a mask is made of blocks, a token
costs its matrices and the tokens that it attends to, whatever else is in its tree: the fewest nodes
cost least. Where it is dense, attention over a tree costs the square of its nodes, too.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import torch

from pcqc.training.batching import HasTokens, Padded
from pcqc.training.tree_attention import has_blocks, padded_length, tree_mask

# With a dense mask a sequence joins a tree if it shares at least this part of its tokens with the
# sequence before it, and if the tree stays at most `LARGEST_TREE` times as large as its first
# sequence. The cut with the fewest FLOPs would save the clinic's model 0 to 8 % of these.
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


def merge_prefixes(
    sequences: Sequence[HasTokens], most_nodes: int, device: torch.device | str
) -> list[TokenTree]:
    """Merge sequences into trees of at most `most_nodes` nodes.

    A longer sequence is a tree of its own. The trees do not depend on the order of the sequences.

    Args:
        sequences: to be merged.
        most_nodes: how many a tree may have.
        device: on which the trees will be attended.
    """
    ordered = sorted(sequences, key=lambda s: s.tokens)
    lengths = [len(sequence.tokens) for sequence in ordered]
    shared = [_shared(*pair) for pair in pairwise([[], *(s.tokens for s in ordered)])]
    starts = (_fewest_nodes if has_blocks(device) else _small_trees)(lengths, shared, most_nodes)
    trees: list[TokenTree] = []
    for number, sequence in enumerate(ordered):
        if number in starts:
            trees.append(TokenTree())
        trees[-1].add(sequence, 0 if number in starts else shared[number])
    return trees


def _small_trees(lengths: Sequence[int], shared: Sequence[int], most_nodes: int) -> set[int]:
    """Numbers of the sequences that start a tree with a dense mask.

    Args:
        lengths: tokens of each sequence.
        shared: how many of them it shares with the sequence before it.
        most_nodes: how many a tree may have.
    """
    starts: set[int] = set()
    first = nodes = 0
    for number, (length, same) in enumerate(zip(lengths, shared, strict=True)):
        fits = nodes + length - same <= min(most_nodes, LARGEST_TREE * lengths[first])
        if not number or not fits or same < SHARED_PART * length:
            starts.add(number)
            first, nodes, same = number, 0, 0
        nodes += length - same
    return starts


def _fewest_nodes(lengths: Sequence[int], shared: Sequence[int], most_nodes: int) -> set[int]:
    """Numbers of the sequences that start a tree with a block mask; see `_small_trees`.

    Of the cuts with the fewest nodes in all, it is the one whose later trees are smallest.
    """
    fewest = [0]  # fewest[n]: nodes of the best cut of the first n sequences
    last: list[int] = []  # last[n - 1]: where the last tree of that cut starts
    for end in range(1, len(lengths) + 1):
        cuts: list[tuple[int, int]] = []
        later = 0
        for start in reversed(range(end)):
            nodes = lengths[start] + later
            if cuts and nodes > most_nodes:
                break
            cuts.append((fewest[start] + nodes, -start))
            later += lengths[start] - shared[start]
        total, start = min(cuts)
        fewest.append(total)
        last.append(-start)
    starts: set[int] = set()
    end = len(lengths)
    while end:
        end = last[end - 1]
        starts.add(end)
    return starts


def _shared(first: Sequence[int], second: Sequence[int]) -> int:
    """Number of tokens that both begin with."""
    count = 0
    for a, b in zip(first, second, strict=False):
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
