"""How models attend over token trees: by a dense mask on a CPU, by FlexAttention on CUDA.

Dong et al. 2024, "Flex Attention: A Programming Model for Generating Optimized Attention Kernels".
Its mask is made of blocks, none of which is written out, so that memory grows with the tokens and
work with the blocks that are seen. A CPU has no backward pass for it.
"""

import functools
from typing import Any, cast

import torch
from torch.nn.attention.flex_attention import BlockMask, flex_attention

# Kinds of devices on which trees have a block mask.
BLOCK_MASKED = frozenset({"cuda"})
# Tokens that a block spans in each direction. Lengths are multiples of it, at least two, so that
# the same compiled kernels serve them all.
BLOCK = 128
# What transformers calls this kind of attention.
NAME = "token_tree"


def has_blocks(device: torch.device | str) -> bool:
    """Whether trees on a device have a block mask rather than a dense one."""
    return torch.device(device).type in BLOCK_MASKED


def padded_length(length: int, device: torch.device | str) -> int:
    """Columns that a row of `length` tokens takes on a device."""
    return max(2, -(-length // BLOCK)) * BLOCK if has_blocks(device) else length


def tree_mask(last: torch.Tensor) -> torch.Tensor | BlockMask:
    """Which columns each column sees: column q sees k where k <= q <= last[k].

    Args:
        last: int64 [rows, columns], on the device of the mask: a node's last descendant.

    Returns:
        bool [rows, 1, columns, columns], or a block mask of that shape.
    """
    if has_blocks(last.device):
        return _block_mask(last)
    column = torch.arange(last.shape[1], device=last.device)[:, None]
    return ((column >= column.T) & (column <= last[:, None]))[:, None]


def _block_mask(last: torch.Tensor) -> BlockMask:
    """The block mask, from `last` alone.

    A block of queries sees one of keys before it in part if any of its keys reaches the first
    query, and in full if all of them reach the last query. Blocks on the diagonal are causal.
    """
    rows, length = last.shape
    blocks = last.view(rows, 1, 1, length // BLOCK, BLOCK)
    first = torch.arange(0, length, BLOCK, device=last.device)[:, None]
    diagonal = first == first.T
    full = (first > first.T) & (blocks.amin(-1) >= first + BLOCK - 1)
    partial = diagonal | (first > first.T) & (blocks.amax(-1) >= first) & ~full

    def sees(row, head, query, key):
        return (key <= query) & (query <= last[row, key])

    mask = BlockMask.from_kv_blocks(
        *_listed(partial), *_listed(full), BLOCK, sees, seq_lengths=(length, length)
    )
    # Else the first length would have kernels of its own, and torch compiles at most eight.
    torch._dynamo.maybe_mark_dynamic(last, 1)
    for tensor in vars(mask).values():
        if isinstance(tensor, torch.Tensor):
            torch._dynamo.maybe_mark_dynamic(tensor, list(range(2, tensor.ndim)))
    return mask


def _listed(seen: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Per block of queries, how many blocks of keys it sees, and their numbers before all others.

    Args:
        seen: bool [rows, 1, blocks of queries, blocks of keys].
    """
    order = seen.int().sort(dim=-1, descending=True, stable=True).indices
    return seen.sum(-1, dtype=torch.int32), order.int()


def take_trees(body: torch.nn.Module) -> None:
    """Have a model of transformers attend by `_attend` from now on."""
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register(NAME, _attend)
    # Masks of other kinds are made as before.
    AttentionMaskInterface.register(NAME, AttentionMaskInterface()["sdpa"])
    cast(Any, body).set_attn_implementation(NAME)


def _attend(module, query, key, value, attention_mask, scaling=None, **others):
    """Attend by FlexAttention where there is a block mask, else by torch's own attention.

    The kind of mask decides in every call, since the transformers engine may share the model, and
    gradient checkpointing calls again during the backward pass.
    """
    if not isinstance(attention_mask, BlockMask):
        from transformers import AttentionInterface

        attend = AttentionInterface()["sdpa"]
        return attend(module, query, key, value, attention_mask, scaling=scaling, **others)
    flex = compiled()
    output = flex(query, key, value, block_mask=attention_mask, scale=scaling, enable_gqa=True)
    return output.transpose(1, 2).contiguous(), None


@functools.cache
def compiled():
    """FlexAttention, compiled for one row and for several, with gradients and without.

    Uncompiled it would write out all scores, so a graph that cannot be compiled raises an error.
    """
    return torch.compile(flex_attention, dynamic=True, fullgraph=True)
