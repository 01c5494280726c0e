"""What an update of the learner launches and moves beside its matrix products, counted.

    python -m benchmarks.kernels [--tokens 32768]

One forward and backward pass of a layer, and of the output layer, as transformers and our learner
write them, on fake tensors in bf16: nothing is computed, so it runs anywhere. Every operation of
torch that is no view is a kernel; it reads and writes its tensors once. A layer compiled by
`torch.compile` (`placement.learner.compile`) is counted as torch plans its kernels, for this CPU.
From the bytes and two rates of a GPU follow predictions of the update's share of a large product's
speed. Prints Markdown.
"""

import argparse
import dataclasses
import logging
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from tabulate import tabulate
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.functional import scaled_dot_product_attention
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import (
    AttentionInterface,
    AttentionMaskInterface,
    LlamaConfig,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from pcqc.training.batching import Padded, TokenModel
from pcqc_gpu.planning.architecture import KNOWN, Architecture

PRODUCT, MEMORY = 750e12, 2.7e12  # an H100's: FLOP/s measured; bytes/s, 0.8 of 3.35e12, assumed
_ATTENTION = "counted"
# Of an update: the mean context of a token, and the share of tokens that are scored.
CONTEXT, SCORED = 900, 0.5
NINE = "Qwen3-8B, nine layers"
SHAPES = {name: KNOWN[name] for name in ("Qwen3-0.6B", "Qwen3-1.7B")}
SHAPES[NINE] = dataclasses.replace(KNOWN["Qwen3-8B"], layers=9)
MEASURED = {"Qwen3-0.6B": 0.15, "Qwen3-1.7B": 0.27, NINE: 0.37}  # H100, 4c54fd9


class Kernels(TorchDispatchMode):
    """Kernels that are launched inside the context, and the bytes that they read and write.

    Attributes:
        launched: name of an operation -> how often.
        moved: bytes of all but matrix products and attention, whose time their FLOPs say.
    """

    PRODUCTS = ("mm", "addmm", "bmm", "_scaled_dot_product")

    def __init__(self):
        super().__init__()
        self.launched: Counter[str] = Counter()
        self.moved = 0

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        result = operation(*args, **(kwargs or {}))
        given = _tensors((args, kwargs))
        made = _tensors(result)
        read = {tensor.untyped_storage()._cdata for tensor in given}
        view = made and all(tensor.untyped_storage()._cdata in read for tensor in made)
        if made and (operation._schema.is_mutable or not view):
            name = operation._schema.name.removeprefix("aten::")
            self.launched[name] += 1
            if not name.startswith(self.PRODUCTS):
                self.moved += sum(_bytes(tensor) for tensor in (*given, *made))
        return result


def _tensors(tree) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def _bytes(tensor: torch.Tensor) -> int:
    """Bytes of memory behind a tensor; those of one that is expanded once."""
    return min(tensor.numel() * tensor.itemsize, tensor.untyped_storage().nbytes())


@dataclasses.dataclass(frozen=True)
class Count:
    """Kernels of a pass, and bytes a token."""

    kernels: int
    moved: float

    def __sub__(self, other: "Count") -> "Count":
        return Count(self.kernels - other.kernels, self.moved - other.moved)


def _attend(module, query, key, value, attention_mask, scaling=None, **others):
    """Causal attention as one operation without a mask, as FlexAttention is on a GPU."""
    output = scaled_dot_product_attention(
        query, key, value, is_causal=True, scale=scaling, enable_gqa=True
    )
    return output.transpose(1, 2).contiguous(), None


AttentionInterface.register(_ATTENTION, _attend)
AttentionMaskInterface.register(_ATTENTION, lambda *_, **__: None)


def config_of(shape: Architecture, **more) -> Qwen3Config | LlamaConfig:
    """The transformers configuration of a shape; `more` are further settings of it."""
    kind = Qwen3Config if shape.head_norms else LlamaConfig
    return kind(
        vocab_size=shape.vocabulary,
        hidden_size=shape.width,
        intermediate_size=shape.hidden,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        tie_word_embeddings=shape.tied,
        **more,
    )


def counted(shape: Architecture, tokens: int) -> tuple[Count, Count]:
    """Forward and backward pass of a model on so many tokens, each of which is scored."""
    config = config_of(shape, attn_implementation=_ATTENTION, dtype=torch.bfloat16)
    with FakeTensorMode():
        model = TokenModel(Qwen3ForCausalLM._from_config(config))
        places = torch.arange(tokens)
        padded = Padded(places[None], None, torch.zeros_like(places), places, places)
        with _counting(tokens) as forward:
            loss = model(padded).sum()
        with _counting(tokens) as backward:
            loss.backward()
    return forward[0], backward[0]


@contextmanager
def _counting(tokens: int) -> Iterator[list[Count]]:
    counts: list[Count] = []
    with Kernels() as kernels:
        yield counts
    counts.append(Count(kernels.launched.total(), kernels.moved / tokens))


def by_part(shape: Architecture, tokens: int) -> dict[str, tuple[Count, Count]]:
    """`layer` and `rest` (embedding, last norm, output layer) -> forward and backward pass."""
    single, double = (counted(dataclasses.replace(shape, layers=n), tokens) for n in (1, 2))
    layer = (double[0] - single[0], double[1] - single[1])
    return {"layer": layer, "rest": (single[0] - layer[0], single[1] - layer[1])}


def compiled(shape: Architecture, tokens: int = 512) -> tuple[Count, Count]:
    """Forward and backward pass of a compiled layer; its bytes a token depend on no length.

    Products and attention stay kernels of their own. What is between them torch writes; it counts
    what each of these reads and writes.
    """
    config = config_of(
        dataclasses.replace(shape, layers=1, vocabulary=1),
        attn_implementation=_ATTENTION,
        dtype=torch.bfloat16,
    )
    model = Qwen3ForCausalLM._from_config(config).model
    hidden = torch.zeros(1, tokens, shape.width, dtype=torch.bfloat16, requires_grad=True)
    rotation = model.rotary_emb(hidden, torch.arange(tokens)[None])
    model.layers[0].compile(dynamic=False)
    with _planned(tokens) as forward:
        output = model.layers[0](hidden, position_embeddings=rotation, attention_mask=None)
    with _planned(tokens) as backward:
        output.sum().backward()
    return forward[0], backward[0]


@contextmanager
def _planned(tokens: int) -> Iterator[list[Count]]:
    """The kernels that torch plans inside the context, which must compile anew."""
    from torch._inductor import compile_fx, metrics  # takes seconds to import

    counts: list[Count] = []
    compile_fx.inductor_metrics_log.setLevel(logging.INFO)  # else torch counts nothing
    torch._dynamo.reset()
    metrics.reset()
    with torch.compiler.config.patch(force_disable_caches=True):
        yield counts
    compile_fx.inductor_metrics_log.setLevel(logging.NOTSET)
    # Results of attention after its first are no kernels; sizes come in numbers of four bytes.
    planned = [(node, 4 * size) for node, size in metrics.nodes_num_elem]
    launched = [node for node, _ in planned if type(node.node).__name__ != "MultiOutput"]
    moved = sum(size for node, size in planned if not node.is_extern())
    counts.append(Count(len(launched), moved / tokens))


def predicted(shape: Architecture, layer: float, again: float, rest: float) -> float:
    """Share of a large product's speed that an update with gradient checkpointing reaches.

    Args:
        shape: the model's.
        layer: bytes a token of a layer, forward and backward.
        again: those of the forward pass that is repeated.
        rest: bytes a scored token outside the layers.
    """
    whole = shape.forward_flops(1, CONTEXT, SCORED)
    repeated = shape.forward_flops(1, CONTEXT, 0)
    moved = shape.layers * (layer + again) + SCORED * rest
    seconds = (3 * whole + repeated) / PRODUCT + moved / MEMORY
    return 3 * whole / PRODUCT / seconds


def row(name: str, shape: Architecture, tokens: int) -> dict[str, object]:
    """A line of the table."""
    parts = by_part(shape, tokens)
    (forward, backward), rest = parts["layer"], sum(count.moved for count in parts["rest"])
    moved = forward.moved + backward.moved
    once, twice = compiled(shape)
    written = once.moved + twice.moved
    return {
        "model": name,
        "kernels of a layer, forward": forward.kernels,
        "backward": backward.kernels,
        "KiB a token and layer": moved / 1024,
        "compiled, forward": once.kernels,
        "compiled, backward": twice.kernels,
        "compiled, KiB": written / 1024,
        "KiB a scored token in the output layer": rest / 1024,
        "share, predicted": predicted(shape, moved, forward.moved, rest),
        "measured": MEASURED[name],
        "compiled, predicted": predicted(shape, written, once.moved, rest),
        "compiled, measured": "",
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--tokens", type=int, default=32768, help="of a micro-batch")
    tokens = parser.parse_args().tokens
    rows = [row(name, shape, tokens) for name, shape in SHAPES.items()]
    print(tabulate(rows, headers="keys", tablefmt="github", floatfmt=".3g"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
