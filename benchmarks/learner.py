"""The learner alone: token trees beside plain sequences, and the speed of updates by size.

    python -m benchmarks.learner [--sizes Qwen3-0.6B Qwen3-1.7B ...] [--tokens 32768] [--rounds 3]

Weights are random, batches like PCQC's and GRPO's. A tiny model computes log-probabilities and
their gradient on token trees and on each sequence by itself, in fp32, on a GPU also in bf16. Then
each size takes updates with DeepSpeed as a run does, on a GPU in bf16, those of PCQC also with
compiled layers; the first size also without gradient checkpointing. Without a GPU there is the tiny
size alone, in fp32.

Writes results/learner.json and learner.md with each row. What fails is a row that says why, the
others go on, and the exit status is 1.
"""

import argparse
import gc
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import torch
from transformers import Qwen3ForCausalLM

from benchmarks.batches import KINDS, Draw, Kind, shrunk
from benchmarks.kernels import SHAPES, config_of
from benchmarks.measure import Page, Quartiles
from pcqc.methods.sequences import QUESTION, TERMINAL
from pcqc.training.backend import merged_micro_batches
from pcqc.training.batching import TokenModel, pad, take_selected
from pcqc.training.policy import Policy
from pcqc.training.token_trees import merge_prefixes
from pcqc.training.training_sequence import KL
from pcqc_base.settings import LearnerPlacement, Rl
from pcqc_base.system.processes import SINGLE_PROCESS, Processes, join, leaving
from pcqc_gpu.deepspeed_backend import DeepSpeedBackend
from pcqc_gpu.measure import product_rate, update_flops
from pcqc_gpu.planning.architecture import Architecture
from pcqc_gpu.planning.devices import GIB
from pcqc_gpu.timed_updates import finish, timed

TINY = "tiny"
SIZES = {TINY: Architecture(128, 2, 4, 2, 32, 192, 1024, tied=True), **SHAPES}
APART = "log-probability, largest difference"
GRADIENT = "gradient, relative difference"
SPREAD = 0.05  # of random weights whose log-probabilities depend on what came before


def make_model(shape: Architecture, dtype: str, **more) -> Qwen3ForCausalLM:
    """A model with random weights on this device; `more` are settings of its configuration."""
    torch.manual_seed(0)
    config = config_of(shape, dtype=getattr(torch, dtype), max_position_embeddings=8192, **more)
    with torch.device("cuda" if torch.cuda.is_available() else "cpu"):
        return Qwen3ForCausalLM._from_config(config).eval()


def make_policy(
    model,
    tokens: int,
    processes: Processes,
    checkpointing: bool = True,
    head: bool = False,
    compiled: bool = False,
) -> Policy:
    """The model in training with DeepSpeed, as a run has it; it is trained in place.

    Args:
        model: with random weights.
        tokens: of a micro-batch.
        processes: this one.
        checkpointing: whether layers are computed again in the backward pass.
        head: whether logits stay in float32.
        compiled: whether layers are.
    """
    placement = LearnerPlacement((0,), gradient_checkpointing=checkpointing, compile=compiled)
    backend = partial(DeepSpeedBackend, placement=placement, processes=processes)
    rl = Rl(
        cases_per_update=8, learning_rate=1e-6, checkpoint_every=1, tokens_per_micro_batch=tokens
    )
    return Policy(model, None, rl, backend, float32_head=head)


def scores(model: TokenModel, batches: Iterable) -> tuple[dict[int, torch.Tensor], torch.Tensor]:
    """Log-probabilities by sequence; gradient of their sum, each times its advantage.

    Args:
        model: in any number format.
        batches: sequences, which tokens of each are selected, and both as a micro-batch.
    """
    model.zero_grad()
    scored: dict[int, torch.Tensor] = {}
    for members, selected, padded in batches:
        logprobs = model(padded)
        parts = logprobs.split([int(chosen.sum()) for chosen in selected])
        scored |= {id(s): part.detach() for s, part in zip(members, parts, strict=True)}
        advantages = [term.advantages for s in members for term in s.terms.values()]
        flat = torch.from_numpy(take_selected(advantages, selected)).to(logprobs)
        (logprobs * flat).sum().backward()
    return scored, torch.cat([p.grad.flatten().double() for p in model.parameters()])


def differences(kind: Kind, dtype: str, tokens: int) -> dict[str, float]:
    """How far the tiny model on token trees is from itself on each sequence."""
    sequences = Draw(SIZES[TINY].vocabulary, seed=0).batch(kind)
    model = TokenModel(make_model(SIZES[TINY], dtype, initializer_range=SPREAD))
    device = next(model.parameters()).device
    learner: Any = SimpleNamespace(device=device, processes=SINGLE_PROCESS)
    ours, gradient = scores(model, merged_micro_batches(learner, sequences, tokens))
    alone = (([s], [s.selected], pad([s], [s.selected], device)) for s in sequences)
    plain, wanted = scores(model, alone)
    return {
        "sequences": len(sequences),
        "trees": len(merge_prefixes(sequences, tokens, device)),
        APART: max(float((ours[key] - plain[key]).abs().max()) for key in plain),
        GRADIENT: float((gradient - wanted).norm() / wanted.norm()),
    }


def speed(size: str, kind: Kind, policy: Policy, rounds: int, product: float) -> dict:
    """Medians over updates of a batch, after a first one that compiles."""
    shape, most = SIZES[size], policy.settings.tokens_per_micro_batch
    sequences = Draw(shape.vocabulary, seed=1).batch(shrunk(kind) if size == TINY else kind)

    def update() -> None:
        policy.update(sequences, {QUESTION: 1.0, TERMINAL: 1.0, KL: 0.0})
        finish()

    first, *others = [timed(update) for _ in range(1 + rounds)]
    seconds = Quartiles.of(others).median
    trees = merge_prefixes(sequences, most, policy.device)
    tokens = sum(len(s.tokens) for s in sequences)
    flops = update_flops(shape, trees, passes=3)
    return {
        "seconds": seconds,
        "first": first,
        "tokens": tokens,
        "nodes": sum(len(tree.tokens) for tree in trees),
        "share of a product's speed (%)": 100 * flops / seconds / product,
        "tokens a second": tokens / seconds,
        "peak GiB": torch.cuda.max_memory_allocated() / GIB if torch.cuda.is_available() else None,
    }


def free() -> None:
    """Give back what the last model held, and forget its peak."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def compare(page: Page, tokens: int) -> None:
    """Trees beside sequences, by number format and kind of batch."""
    for dtype in ("float32", "bfloat16") if torch.cuda.is_available() else ("float32",):
        for name, kind in KINDS.items():
            small = replace(kind, cases=2, rollouts=3, turns=(1, 3), prompt=(300, 301))
            measure = partial(differences, small, dtype, tokens)
            page.add("Token trees beside sequences", {"numbers": dtype, "batch": name}, measure)


def updates(page: Page, sizes: Sequence[str], tokens: int, rounds: int) -> None:
    """The speed of each size on each kind of batch."""
    dtype = "bfloat16" if torch.cuda.is_available() else "float32"
    product = product_rate(dtype)
    page.add("A large product", {"numbers": dtype}, lambda: {"TFLOP/s": product / 1e12})
    plan = [(size, name, True, False) for size in sizes for name in KINDS]
    plan += [(size, "PCQC", True, True) for size in sizes]
    plan += [(sizes[0], name, False, False) for name in KINDS]
    with leaving(processes := join([0])):
        for size, name, again, compiled in plan:

            def measure(size=size, name=name, again=again, compiled=compiled) -> dict:
                model = make_model(SIZES[size], dtype)
                policy = make_policy(model, tokens, processes, again, compiled=compiled)
                return speed(size, KINDS[name], policy, rounds, product)

            free()
            given = {"model": size, "batch": name, "checkpointing": "yes" if again else "no"}
            page.add("Updates", given | {"layers": "compiled" if compiled else "plain"}, measure)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    default = list(SHAPES) if torch.cuda.is_available() else [TINY]
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=default, help="the models")
    parser.add_argument("--tokens", type=int, default=32768, help="of a micro-batch")
    parser.add_argument("--rounds", type=int, default=3, help="updates that count")
    arguments = parser.parse_args()
    page = Page("learner")
    compare(page, arguments.tokens)
    updates(page, arguments.sizes, arguments.tokens, arguments.rounds)
    return page.end()


if __name__ == "__main__":
    sys.exit(main())
