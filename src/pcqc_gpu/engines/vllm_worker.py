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
from typing import Any

import torch

from pcqc_gpu.engines.weight_transfer import by_files, by_handles
from pcqc_gpu.engines.weight_transfer.checksums import noted


class WeightReceiver:
    """Methods added to vLLM's worker (its `worker_extension_cls`)."""

    get_model: Callable[[], Any]  # these three are the worker's own
    vllm_config: Any
    model_config: Any
    received: dict[str, int]

    def begin_weights(self) -> None:
        """Make the old weights NaN, so that what the new ones leave is noticed."""
        from vllm.model_executor.model_loader.reload import initialize_layerwise_reload

        self.received = {}
        with torch.no_grad():
            for parameter in self.get_model().parameters():
                if parameter.is_floating_point():
                    parameter.fill_(torch.nan)
        initialize_layerwise_reload(self.get_model())

    def take_weights(self, weights: "Iterable[tuple[str, torch.Tensor]] | str | list") -> None:
        """Load named weights, those of the safetensors files in a folder, or those of handles."""
        from vllm.config import set_current_vllm_config

        if isinstance(weights, str):
            weights = by_files.read(Path(weights))
        elif isinstance(weights, list):
            weights = by_handles.opened(weights)
        with set_current_vllm_config(self.vllm_config):
            self.get_model().load_weights(noted(weights, self.received))

    def end_weights(self) -> tuple[dict[str, int], list[str]]:
        """The checksums of what arrived, and the names of vLLM's weights that are not whole."""
        from vllm.config import set_current_vllm_config
        from vllm.model_executor.model_loader.reload import finalize_layerwise_reload

        model = self.get_model()
        with set_current_vllm_config(self.vllm_config):
            finalize_layerwise_reload(model, self.model_config)
            _tie(model)
        return self.received, [n for n, p in model.named_parameters() if p.isnan().any()]

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
