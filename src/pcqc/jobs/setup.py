"""What several jobs need: tokenizers, engines, roles, and threads."""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch

from pcqc.cases import Case
from pcqc.config import Study
from pcqc.consultation import Setting
from pcqc.engines.base import Engine
from pcqc.engines.sync import WeightSync
from pcqc.instruction import read_instruction
from pcqc.models import check_folder, load_model, load_tokenizer
from pcqc.paths import Paths
from pcqc.protocol import ChatFormat
from pcqc.roles import Actor, Patient, Scorer
from pcqc.training.policy import Policy

SYNC_PROMPTS = 4
# What two implementations may differ by in a log-probability, through rounding alone: the logit of
# an unlikely token is some tens below the likeliest, where bfloat16 has steps of a quarter.
SYNC_TOLERANCE = {"float32": 1e-3, "bfloat16": 1.0}


def single_threaded() -> None:
    """One thread for torch unless the environment names another number.

    Small models are fastest so, and sums come out in one order, so that results are repeatable.
    """
    from transformers.utils import logging

    logging.disable_progress_bar()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    torch.use_deterministic_algorithms(not torch.cuda.is_available())


def chat_format(study: Study, folder: Path) -> ChatFormat:
    """Chat format of the model in `folder`."""
    return ChatFormat(load_tokenizer(folder), read_instruction(study))


@dataclass(frozen=True)
class Weights:
    """A model on disk.

    Attributes:
        folder: with weights, tokenizer and manifest.
        dtype: number format to hold the weights in.
        remedy: how to get the folder back where it is missing or corrupted.
    """

    folder: Path
    dtype: str
    remedy: str

    def load(self):
        """The model, checked; see `load_model`."""
        return load_model(self.folder, self.dtype, self.remedy)


def start_weights(study: Study, role: str) -> Weights:
    """Weights of `actor`, `patient` or `scorer` before any fine-tuning."""
    command = "models" if study.pretrained else "pretrain"
    return _made_by(study, command, study.starts_from(role), role)


def role_weights(study: Study, role: str) -> Weights:
    """Weights that a role takes part with: Shared SFT's, but the scorer is never fine-tuned."""
    return start_weights(study, role) if role == "scorer" else _made_by(study, "sft", role, role)


def _made_by(study: Study, command: str, model: str, role: str) -> Weights:
    folder = Paths.of(study).model(model)
    remedy = f"remove {folder} and run `pcqc {command} {study.name}`"
    return Weights(folder, study.dtype(role), remedy)


def make_engine(
    study: Study, role: Literal["actor", "patient", "scorer"], weights: Weights, model=None
) -> Engine:
    """The engine of a role, as the study has it.

    Args:
        study: its `servers` and `engine` say what runs the role.
        role: whose engine; a served one needs no weights here.
        weights: what it starts with.
        model: the learner's module, for an engine that can share it.
    """
    settings = study.engine
    sizes = {"batch_size": settings.batch_size, "cache_tokens": settings.cache_tokens}
    if server := getattr(study.servers, role, None):
        from pcqc.engines.server import ServerEngine

        engine = ServerEngine(server)
        engine.check_weights(weights.folder)
        return engine
    if settings.kind == "vllm":
        from pcqc.engines.vllm import VllmEngine

        check_folder(weights.folder, weights.remedy)
        placed = getattr(study.placement, role, None)
        return VllmEngine(
            weights.folder,
            dtype=weights.dtype,
            own_process=settings.process == "own",
            tensor_parallel=placed.tensor_parallel if placed else 1,
            sleeps=placed.sleeps if placed else True,
            **sizes,
        )
    from pcqc.engines.transformers import TransformersEngine

    return TransformersEngine(weights.load() if model is None else model, **sizes)


def make_setting(study: Study, actor: Weights, model=None) -> Setting:
    """Actor and patient at one table: the patient's weights are the SFT checkpoint's.

    Args:
        study: settings.
        actor: the actor's weights.
        model: the learner's module, where the actor is being trained.
    """
    paths = Paths.of(study)
    chat = chat_format(study, paths.model("actor"))
    patient = Patient(
        make_engine(study, "patient", role_weights(study, "patient")),
        chat_format(study, paths.model("patient")),
        study.patient_decoding,
    )
    engine = make_engine(study, "actor", actor, model)
    return Setting(Actor(engine, chat, study.actor_decoding), patient, chat, study.protocol)


def make_sync(
    study: Study, setting: Setting, policy: Policy, cases: Sequence[Case]
) -> Callable[[Iterable[tuple[str, torch.Tensor]]], float | None]:
    """What brings named weights to the actor's engine, before anything is drawn with it.

    An engine that shares the learner's module has them; any other is compared with the learner, and
    the difference returned.

    Args:
        study: settings.
        setting: whose actor it is.
        policy: the learner's.
        cases: of whose opening prompts the first few are what both are compared on.
    """
    if study.engine.kind == "transformers" and policy.backend.whole:
        return setting.actor.engine.load_weights
    tolerance = study.engine.sync_tolerance or SYNC_TOLERANCE[study.dtype("actor")]
    prompts = [setting.chat.open(case.public) for case in cases[:SYNC_PROMPTS]]
    return WeightSync(setting.actor.engine, policy.next_logprobs, prompts, tolerance)


def make_scorer(study: Study) -> Scorer:
    """The frozen scorer: a model as it was before any fine-tuning."""
    weights = role_weights(study, "scorer")
    return Scorer(make_engine(study, "scorer", weights), load_tokenizer(weights.folder))
