"""The learner of SFT and of RL: its backend, and its weights on disk."""

import functools
from pathlib import Path
from pkgutil import resolve_name

from pcqc.models.folder import save_model
from pcqc.training.backend import Backend, MakeBackend, adamw_backend, model_weights
from pcqc_base.system.processes import Processes
from pcqc_base.task import DEEPSPEED, Where


def make_backend(where: Where, processes: Processes) -> MakeBackend:
    """What takes a module's optimiser steps: DeepSpeed, where the study places its learner."""
    if where.placement is None:
        return adamw_backend
    deepspeed = resolve_name(DEEPSPEED)
    learner = where.placement.learner
    return functools.partial(deepspeed, placement=learner, processes=processes)


def write_model(path: Path, model, backend: Backend, tokenizer, extra: dict) -> str | None:
    """Write a model in training as `save_model` does.

    All processes send their shards; the first writes. Sharded weights are
    copied whole into that process's memory alone.

    Returns:
        The folder's digest, in the process that writes it.
    """
    is_main, weights = backend.processes.is_main, {}
    for name, tensor in model_weights(backend):
        if is_main:
            weights[name] = tensor.detach().to("cpu", copy=not backend.unsharded)
    return save_model(path, model, tokenizer, extra, weights.items()) if is_main else None
