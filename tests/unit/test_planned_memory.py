"""The plan's memory of an update, against torch's own operations on fake tensors of real shapes."""

import dataclasses
import weakref
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from eager_blocks import eager_blocks
from helpers import changed
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.attention.flex_attention import BlockMask
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import AutoModelForCausalLM

from benchmarks.kernels import config_of
from pcqc.training.batching import Padded, SelectedTokens, TokenModel
from pcqc.training.kl import kl_estimate
from pcqc.training.policy_loss import Clip, clipped_policy_loss
from pcqc.training.token_trees import merge_prefixes, pad_token_trees
from pcqc_gpu.planning.architecture import KNOWN
from pcqc_gpu.planning.memory import activation_bytes, longest
from pcqc_study.study_file import load_study

SHALLOW = dataclasses.replace(KNOWN["Qwen3-0.6B"], layers=4)
# Deep enough for the inputs of layers to count; `test_architecture.py` has what one more adds.
REAL, PAPER = (dataclasses.replace(KNOWN[name], layers=8) for name in ("Qwen3-0.6B", "Qwen3-8B"))
FEW_WORDS = dataclasses.replace(SHALLOW, vocabulary=4096)
# Study, model, number format, checkpointing, dense mask.
CASES = {
    "real": ("real", REAL, torch.bfloat16, True, False),
    "paper": ("paper", PAPER, torch.bfloat16, True, False),
    "float32": ("paper", SHALLOW, torch.float32, True, False),
    "all activations kept": ("paper", SHALLOW, torch.bfloat16, False, False),
    "one part of logits": ("paper", FEW_WORDS, torch.bfloat16, True, False),
    "a dense mask": ("paper", SHALLOW, torch.bfloat16, True, True),
    "a dense mask, all activations kept": ("paper", SHALLOW, torch.bfloat16, False, True),
}


class Memory(TorchDispatchMode):
    """Bytes of all tensors that operations return inside the context: `held` now, and `peak`."""

    supports_higher_order_operators = True  # such as FlexAttention

    def __init__(self):
        super().__init__()
        self.held = self.peak = 0
        self.alive: dict[int, weakref.ref] = {}

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        result = operation(*args, **(kwargs or {}))
        # In a backward pass torch adds gradients up in place, but not under a mode like this one.
        in_place = operation is torch.ops.aten.add.Tensor and not torch.is_grad_enabled()
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor):
                self.count(tensor.untyped_storage(), in_place)
        return result

    def count(self, storage, in_place: bool) -> None:
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


def fullest_tree(budget: int, length: int, prompt: int) -> Padded:
    """A micro-batch of one tree with `budget` nodes, of sequences of the longest length."""
    places, branches = np.arange(length), max(2, -(-(budget - length) // (length - prompt)))
    own = [(budget - length + branch) // branches for branch in range(branches)]
    # Every node after the prompt is scored once.
    rows = [SelectedTokens([0] * length, places >= prompt)]
    rows += [
        SelectedTokens([0] * (length - count) + [number] * count, places >= length - count)
        for number, count in enumerate(own, start=1)
        if count
    ]
    trees = merge_prefixes(rows, budget, "cpu")
    assert [len(tree.tokens) for tree in trees] == [budget]
    return pad_token_trees(trees, [row.selected for row in trees[0].members], "cpu")


def on_device(field: torch.Tensor | BlockMask, device: FakeTensorMode):
    """A part of a micro-batch as fake tensors."""
    if not isinstance(field, BlockMask):
        return device.from_tensor(field)
    names = ("kv_num_blocks", "kv_indices", "full_kv_num_blocks", "full_kv_indices")
    parts = [device.from_tensor(getattr(field, name)) for name in names]
    return BlockMask.from_kv_blocks(
        *parts, field.BLOCK_SIZE, field.mask_mod, seq_lengths=field.seq_lengths
    )


def update_peak(shape, padded: Padded, dtype: torch.dtype, checkpointing: bool) -> int:
    """Peak bytes of a micro-batch of two components and a KL penalty, without weights.

    A gradient is freed when it is whole, as ZeRO adds it to what it keeps of the gradients.
    """
    config = config_of(shape, attn_implementation="sdpa", dtype=dtype)
    with FakeTensorMode() as device, Memory() as memory:
        policy = TokenModel(AutoModelForCausalLM.from_config(config).train())
        for parameter in policy.model.parameters():
            parameter.register_post_accumulate_grad_hook(lambda p: setattr(p, "grad", None))
        if checkpointing:
            policy.model.gradient_checkpointing_enable({"use_reentrant": False})
        reference = TokenModel(AutoModelForCausalLM.from_config(config).requires_grad_(False))
        inputs = Padded(**{name: on_device(field, device) for name, field in vars(padded).items()})
        masks = [f for f in vars(inputs).values() if isinstance(f, torch.Tensor)]
        held = memory.peak = memory.held
        for tensor in masks:
            memory.count(tensor.untyped_storage(), in_place=False)
        logprobs = policy(inputs)
        with torch.no_grad():
            compared = reference(inputs)
        advantages = torch.ones_like(logprobs)
        parts = [clipped_policy_loss(logprobs, logprobs.detach(), advantages, Clip(0.2, 0.2))] * 2
        sum(part.sum() for part in (*parts, kl_estimate(logprobs, compared))).backward()
        return memory.peak - held


@pytest.mark.parametrize(
    ("name", "shape", "dtype", "checkpointing", "dense"), CASES.values(), ids=CASES
)
def test_the_planned_peak_of_a_micro_batch(name, shape, dtype, checkpointing, dense):
    study = load_study(name)
    if dense:
        study = changed(study, "placement.device", "CPU")
        study = changed(study, "rl.tokens_per_micro_batch", 8192)  # the mask is really made here
    study = changed(study, "placement.learner.gradient_checkpointing", checkpointing)
    planned = activation_bytes(study, shape, dtype.itemsize)
    with nullcontext() if dense else eager_blocks():
        length = longest(study, "actor")
        padded = fullest_tree(study.rl.tokens_per_micro_batch, length, study.protocol.prompt_tokens)
        measured = update_peak(shape, padded, dtype, checkpointing)
    assert measured == pytest.approx(planned, rel=0.1)
