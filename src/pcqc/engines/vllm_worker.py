"""What vLLM's worker does for us: take over weights, and end when the learner does.

vLLM imports this by name, in its process.

vLLM's own reload goes layer by layer, so that at no time are the weights there twice. It leaves
out an output layer tied to the embeddings where that has been repacked for the CPU's kernels, with
no more than a warning; hence the last step here.
"""

import os
import select
import signal
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

import torch
from safetensors import safe_open


class WeightReceiver:
    """Methods added to vLLM's worker (its `worker_extension_cls`)."""

    def take_weights(self, weights: Iterable[tuple[str, torch.Tensor]] | str) -> None:
        """Take over named weights, or those of the safetensors files in a folder."""
        if isinstance(weights, str):
            weights = _read(Path(weights))
        self.model_runner.reload_weights(weights_iterator=weights)
        _tie(self.model_runner.get_model())

    def end_with(self, learner: int) -> None:
        """End vLLM's processes when that of the learner ends, however that ends.

        Left to itself, vLLM outlives a learner that is killed, and keeps the memory of its devices.
        """
        engine = os.getpid() if os.getppid() == learner else os.getppid()
        arguments = os.pidfd_open(learner), engine
        threading.Thread(target=_kill_after, args=arguments, daemon=True).start()


def _kill_after(process: int, engine: int) -> None:
    """Wait for the end of a process, by its descriptor; kill the engine: its workers follow."""
    ended = select.poll()
    ended.register(process, select.POLLIN)
    ended.poll()
    os.kill(engine, signal.SIGKILL)


def _read(folder: Path) -> Iterator[tuple[str, torch.Tensor]]:
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, framework="pt") as file:
            for name in file.keys():  # noqa: SIM118 (not a mapping)
                yield name, file.get_tensor(name)


def _tie(model) -> None:
    """Give a tied output layer the embeddings' new weights, packed anew."""
    if model.config.tie_word_embeddings:
        head = model.lm_head
        head.tie_weights(model.model.embed_tokens)
        head.quant_method.process_weights_after_loading(head)
