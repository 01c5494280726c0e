"""The learner of SFT and of RL: what takes its steps, and its weights on disk."""

import functools
from pathlib import Path

from pcqc.config import Study
from pcqc.models import save_model
from pcqc.processes import Processes
from pcqc.training.backend import Backend, MakeBackend, adamw_backend, model_weights


def make_backend(study: Study, processes: Processes) -> MakeBackend:
    """What takes a module's optimiser steps: DeepSpeed, where the study places its learner."""
    if study.placement is None:
        return adamw_backend
    from pcqc.training.deepspeed_backend import DeepSpeedBackend

    learner = study.placement.learner
    return functools.partial(DeepSpeedBackend, placement=learner, processes=processes)


def write_model(path: Path, model, backend: Backend, tokenizer, extra: dict) -> str | None:
    """Write a model in training as `save_model` does.

    All processes give their part of the weights, and the first writes. A whole copy of the weights
    is made, where they are divided, in that process's memory alone.

    Returns:
        The folder's digest, in the process that writes it.
    """
    leads, weights = backend.processes.leads, {}
    for name, tensor in model_weights(backend):
        if leads:
            weights[name] = tensor.detach().to("cpu", copy=not backend.whole)
    return save_model(path, model, tokenizer, extra, weights.items()) if leads else None
