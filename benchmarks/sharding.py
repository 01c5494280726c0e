"""DeepSpeed's ZeRO 3 beside torch's FSDP2 (`fully_shard`): the same gradients, and time by turns.

    python -m torch.distributed.run --nproc-per-node=2 -m benchmarks.sharding

A small model in fp32 on a CPU, with a micro-batch of its own in each process. Prints how far
gradients and weights are apart, and the ratio of the times of a step. The formulas for the paper's
size are in docs/deepspeed.md.
"""

import json
import statistics
import sys
from collections.abc import Callable

import numpy as np
import torch
from torch.distributed.fsdp import fully_shard
from transformers import Qwen3Config, Qwen3ForCausalLM

from pcqc.jobs.timed_updates import timed
from pcqc.settings import LearnerPlacement, Sft
from pcqc.system.processes import Processes, join, shutdown
from pcqc.training.backend import model_weights
from pcqc.training.batching import Padded, SelectedTokens, TokenModel, pad
from pcqc.training.deepspeed_backend import DeepSpeedBackend

ROUNDS, ROWS, TOKENS, VOCABULARY, LAYERS = 9, 4, 128, 2048, 4
SETTINGS = Sft(epochs=1, patient_epochs=1, batch_size=1, learning_rate=1e-4)
Tensors = dict[str, torch.Tensor]


def model() -> TokenModel:
    """The same in every process."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 128, "intermediate_size": 384, "head_dim": 32}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": LAYERS}
    return TokenModel(Qwen3ForCausalLM(Qwen3Config(vocab_size=VOCABULARY, **sizes, **heads)))


def batch(number: int, rank: int) -> Padded:
    """A micro-batch of one process."""
    ids = np.random.default_rng([number, rank]).integers(VOCABULARY, size=(ROWS, TOKENS))
    selected = np.arange(TOKENS) > 0
    rows = [SelectedTokens(row.tolist(), selected) for row in ids]
    return pad(rows, [selected] * ROWS, "cpu")


class Zero:
    """ZeRO 3 as a study's learner has it."""

    def __init__(self, processes: Processes):
        place = LearnerPlacement(devices=(0, 1), zero=3)
        self.backend = DeepSpeedBackend(model(), 1e-4, SETTINGS, place, processes)

    def gradients(self, padded: Padded) -> Tensors:
        self.backend.backward(-self.backend.forward(padded).mean())
        full = self.backend.deepspeed.utils.safe_get_full_grad
        named = self.backend.module.named_parameters()
        return {name.removeprefix("model."): full(parameter) for name, parameter in named}

    def step(self, padded: Padded) -> None:
        self.backend.backward(-self.backend.forward(padded).mean())
        self.backend.step()

    def weights(self) -> Tensors:
        return {name: tensor.detach().clone() for name, tensor in model_weights(self.backend)}


class Fsdp2:
    """The same by `fully_shard`: each layer a unit, and what remains another."""

    def __init__(self, processes: Processes):
        self.count, self.module = processes.count, model()
        for layer in self.module.model.model.layers:
            fully_shard(layer)
        fully_shard(self.module)
        self.optimizer = torch.optim.AdamW(
            self.module.parameters(), lr=1e-4, weight_decay=SETTINGS.weight_decay
        )

    def gradients(self, padded: Padded) -> Tensors:
        self._backward(padded)
        named = self.module.named_parameters()
        return {name.removeprefix("model."): p.grad.full_tensor() for name, p in named}

    def step(self, padded: Padded) -> None:
        self._backward(padded)
        torch.nn.utils.clip_grad_norm_(self.module.parameters(), SETTINGS.max_gradient_norm)
        self.optimizer.step()
        self.optimizer.zero_grad()

    def weights(self) -> Tensors:
        named = self.module.named_parameters()
        return {name.removeprefix("model."): p.detach().full_tensor() for name, p in named}

    def _backward(self, padded: Padded) -> None:
        """Parts of all processes are summed, where the library takes their mean."""
        (-self.module(padded).mean() * self.count).backward()


def apart(mine: Tensors, other: Tensors) -> float:
    """Norm of the difference, as a share of the second's norm."""
    pairs = [(mine[name], tensor) for name, tensor in other.items()]
    difference = sum(float((a - b).double().norm() ** 2) for a, b in pairs)
    return (difference / sum(float(b.double().norm() ** 2) for _, b in pairs)) ** 0.5


def measured(processes: Processes) -> dict[str, float]:
    """What is printed."""
    compared = [kind(processes).gradients(batch(0, processes.rank)) for kind in (Zero, Fsdp2)]
    zero, fsdp = Zero(processes), Fsdp2(processes)
    start = fsdp.weights()
    seconds: dict[str, list[float]] = {"zero": [], "fsdp": []}
    for number in range(ROUNDS):
        padded = batch(number, processes.rank)
        turns = [("zero", zero.step), ("fsdp", fsdp.step)]
        for name, step in turns if number % 2 else reversed(turns):
            seconds[name].append(_timed(processes, step, padded))
    ratios = [a / b for a, b in zip(*seconds.values(), strict=True)][1:]  # the first is a warm-up
    ways = [{n: t - start[n] for n, t in kind.weights().items()} for kind in (zero, fsdp)]
    return {
        "gradients apart": apart(*compared),
        "ways of the weights apart": apart(*ways),
        "time of ZeRO 3 / FSDP2, median": statistics.median(ratios),
        "least": min(ratios),
        "most": max(ratios),
    }


def _timed(processes: Processes, step: Callable[[Padded], None], padded: Padded) -> float:
    processes.barrier()
    return timed(lambda: (step(padded), processes.barrier()))


def main() -> int:
    torch.set_num_threads(1)
    processes = join((0, 1))
    result = measured(processes)
    if processes.is_main:
        print(json.dumps(result, indent=2))
    shutdown(processes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
