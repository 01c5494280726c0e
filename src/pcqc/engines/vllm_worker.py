"""What this project adds to vLLM's worker: new weights, and an end when the learner ends.

vLLM imports this module by name, in its own process. Its reload goes layer by layer, so the weights
are never held twice. It skips, with only a warning, an output layer that is tied to the embeddings
and repacked for the CPU's kernels; `_tie` does that layer.
"""

import os
import select
import signal
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

import torch

from pcqc.engines import weight_files


class WeightReceiver:
    """Methods added to vLLM's worker (its `worker_extension_cls`)."""

    reload_weights: Callable[..., None]  # the worker's own
    get_model: Callable[[], torch.nn.Module]

    def take_weights(self, weights: Iterable[tuple[str, torch.Tensor]] | str) -> None:
        """Load named weights, or those of the safetensors files in a folder."""
        if isinstance(weights, str):
            weights = weight_files.read(Path(weights))
        self.reload_weights(weights_iterator=weights)
        _tie(self.get_model())

    def end_with(self, learner: int) -> None:
        """End vLLM's processes when the learner's ends, in whatever way.

        Otherwise vLLM outlives a killed learner and keeps the memory of its devices.
        """
        engine = os.getpid() if os.getppid() == learner else os.getppid()
        arguments = os.pidfd_open(learner), engine
        threading.Thread(target=_kill_after, args=arguments, daemon=True).start()


def _kill_after(process: int, engine: int) -> None:
    """Wait for a process to end, by its descriptor, then kill the engine; its workers follow."""
    ended = select.poll()
    ended.register(process, select.POLLIN)
    ended.poll()
    os.kill(engine, signal.SIGKILL)


def _tie(model) -> None:
    """Give a tied output layer the new embeddings, and repack it."""
    if model.config.tie_word_embeddings:
        head = model.lm_head
        head.tie_weights(model.model.embed_tokens)
        head.quant_method.process_weights_after_loading(head)
