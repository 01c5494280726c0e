"""A device of torch's fake tensors: nothing is computed, and what lies in memory is counted."""

import functools
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import numpy as np
import torch
from eager_blocks import eager_blocks
from helpers import config_of
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.attention.flex_attention import BlockMask
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import AutoModelForCausalLM

from pcqc.planning.architecture import Architecture
from pcqc.planning.memory import longest
from pcqc.study import load_study
from pcqc.training.batching import Padded, SelectedTokens, TokenModel
from pcqc.training.kl import kl_estimate
from pcqc.training.policy_loss import Clip, clipped_policy_loss
from pcqc.training.token_trees import merge_prefixes, pad_token_trees


class Memory(TorchDispatchMode):
    """Bytes of all tensors that operations return inside the context.

    Attributes:
        held: now.
        peak: at most, since it was last set.
    """

    supports_higher_order_operators = True  # such as FlexAttention

    def __init__(self):
        super().__init__()
        self.held = self.peak = 0
        self.alive: dict[int, weakref.ref] = {}

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        found = operation(*args, **(kwargs or {}))
        # In a backward pass torch adds gradients up in place, but not under a mode like this one.
        in_place = operation is torch.ops.aten.add.Tensor and not torch.is_grad_enabled()
        for tensor in tree_leaves(found):
            if isinstance(tensor, torch.Tensor):
                self.count(tensor, in_place)
        return found

    def count(self, tensor: torch.Tensor, in_place: bool = False) -> None:
        """Count a tensor's storage until it is freed."""
        storage = tensor.untyped_storage()
        key, size = storage._cdata, storage.nbytes()
        if key in self.alive:
            return

        def freed(_) -> None:
            self.held -= size
            del self.alive[key]

        self.alive[key] = weakref.ref(storage, freed)
        self.held += size
        if not in_place:
            self.peak = max(self.peak, self.held)


@contextmanager
def simulated() -> Iterator[tuple[FakeTensorMode, Memory]]:
    """The fake device, and its memory."""
    with FakeTensorMode() as device, Memory() as memory:
        yield device, memory


def fullest_tree(budget: int, longest: int, prompt: int) -> Padded:
    """A micro-batch of one tree with `budget` nodes of sequences of the longest length."""
    own = (budget - longest) // 2
    assert 2 * own == budget - longest
    common = [0] * (longest - own)
    # Every node after the prompt is scored once.
    selected = np.arange(longest) >= (longest - own)
    first = SelectedTokens([0] * longest, np.arange(longest) >= prompt)
    rows = [first, *(SelectedTokens(common + [n] * own, selected) for n in (1, 2) if own)]
    trees = merge_prefixes(rows, budget, "cpu")
    assert [len(tree.tokens) for tree in trees] == [budget]
    return pad_token_trees(trees, [row.selected for row in trees[0].members], "cpu")


def update_peak(
    shape: Architecture, padded: Padded, dtype: torch.dtype, *, checkpointing: bool
) -> int:
    """Bytes at the peak of a micro-batch's forward and backward pass, but weights.

    A gradient is freed when it is whole, as ZeRO adds it to what it keeps of the gradients.
    """
    with simulated() as (device, memory):
        policy, reference = (model_of(shape, dtype, trained) for trained in (True, False))
        if checkpointing:
            policy.model.gradient_checkpointing_enable({"use_reentrant": False})
        held = memory.peak = memory.held
        fields = {name: faked(field, device, memory) for name, field in vars(padded).items()}
        backward(policy, reference, Padded(**fields))
        return memory.peak - held


def faked(field: torch.Tensor | BlockMask, device: FakeTensorMode, memory: Memory):
    """A part of a micro-batch on the fake device."""
    if isinstance(field, BlockMask):
        names = ("kv_num_blocks", "kv_indices", "full_kv_num_blocks", "full_kv_indices")
        parts = [faked(getattr(field, name), device, memory) for name in names]
        return BlockMask.from_kv_blocks(
            *parts, field.BLOCK_SIZE, field.mask_mod, seq_lengths=field.seq_lengths
        )
    tensor = device.from_tensor(field)
    memory.count(tensor)
    return tensor


@functools.cache
def largest_peak(
    name: str,
    shape: Architecture,
    dtype: torch.dtype,
    checkpointing: bool = True,
    dense: bool = False,
) -> int:
    """`update_peak` of the largest micro-batch of a study, of a model of this shape.

    `dense` is whether token trees have a dense mask, as on a CPU.
    """
    study = load_study(name)
    budget, prompt = study.rl.tokens_per_micro_batch, study.protocol.prompt_tokens
    with nullcontext() if dense else eager_blocks():
        padded = fullest_tree(budget, longest(study, "actor"), prompt)
        return update_peak(shape, padded, dtype, checkpointing=checkpointing)


def model_of(shape: Architecture, dtype: torch.dtype, trained: bool) -> TokenModel:
    """A model without values."""
    config = config_of(shape, attn_implementation="sdpa", dtype=dtype)
    model = AutoModelForCausalLM.from_config(config).train(trained).requires_grad_(trained)
    assert {p.dtype for p in model.parameters()} == {dtype}
    if trained:
        for parameter in model.parameters():
            parameter.register_post_accumulate_grad_hook(lambda p: setattr(p, "grad", None))
    return TokenModel(model)


def backward(policy: TokenModel, reference: TokenModel, padded: Padded) -> None:
    """What `Policy.update` does with a micro-batch of two components and a KL penalty."""
    logprobs = policy(padded)
    with torch.no_grad():
        compared = reference(padded)
    advantages = torch.ones_like(logprobs)
    parts = [clipped_policy_loss(logprobs, logprobs.detach(), advantages, Clip(0.2, 0.2))] * 2
    parts.append(kl_estimate(logprobs, compared))
    sum(part.sum() for part in parts).backward()
