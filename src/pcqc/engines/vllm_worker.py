"""What this project adds to vLLM's worker: new weights, and an end when the learner ends.

vLLM imports this module by name, in its own process. Its reload goes layer by layer, so the weights
are never held twice. It skips, with only a warning, what is left out, and an output layer that is
tied to the embeddings and repacked for the CPU's kernels; `_tie` does that layer.
"""

import os
import select
import signal
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

import torch

from pcqc.engines import weight_files
from pcqc.engines.weight_checksums import noted


class WeightReceiver:
    """Methods added to vLLM's worker (its `worker_extension_cls`)."""

    reload_weights: Callable[..., None]  # the worker's own
    get_model: Callable[[], torch.nn.Module]

    @torch.no_grad()
    def take_weights(
        self, weights: Iterable[tuple[str, torch.Tensor]] | str
    ) -> tuple[dict[str, int], list[str]]:
        """Load named weights, or those of the safetensors files in a folder.

        Returns:
            The checksum of each that arrived, and the names of vLLM's own weights that the new
            ones did not replace whole: the old ones are made NaN before.
        """
        if isinstance(weights, str):
            weights = weight_files.read(Path(weights))
        model, received = self.get_model(), dict[str, int]()
        for parameter in model.parameters():
            if parameter.is_floating_point():
                parameter.fill_(torch.nan)
        self.reload_weights(weights_iterator=noted(weights, received))
        _tie(model)
        return received, [n for n, p in model.named_parameters() if p.isnan().any()]

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
