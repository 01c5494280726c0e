"""What several jobs need: tokenizers, engines, roles, and threads."""

import os
from pathlib import Path

from pcqc.config import Study
from pcqc.consultation import Setting
from pcqc.engines.base import Engine
from pcqc.jobs.paths import Paths
from pcqc.models import load_model, load_tokenizer
from pcqc.protocol import ChatFormat
from pcqc.roles import Actor, Patient, Scorer


def single_threaded() -> None:
    """One thread for torch unless the environment names another number.

    Small models are fastest so, and sums come out in one order, so that results are repeatable.
    """
    import torch
    from transformers.utils import logging

    logging.disable_progress_bar()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    torch.use_deterministic_algorithms(not torch.cuda.is_available())


def chat_format(study: Study, folder: Path) -> ChatFormat:
    """Chat format of the model in `folder`."""
    return ChatFormat(load_tokenizer(folder), study.protocol.instruction)


def make_engine(study: Study, model) -> Engine:
    """Engine around a loaded model."""
    from pcqc.engines.transformers import TransformersEngine

    settings = study.engine
    return TransformersEngine(
        model, batch_size=settings.batch_size, cache_tokens=settings.cache_tokens
    )


def load_role(study: Study, role: str):
    """The model of `actor` (Shared SFT), `patient` or `scorer`, in its role's number format."""
    folder = Paths.of(study).model(study.starts_from(role) if role == "scorer" else role)
    command = "sft" if role != "scorer" else "models" if study.pretrained else "pretrain"
    remedy = f"remove {folder} and run `pcqc {command} {study.name}`"
    return load_model(folder, study.dtype(role), remedy)


def make_setting(study: Study, actor_model) -> Setting:
    """Actor and patient at one table: the patient's weights are the SFT checkpoint's."""
    paths = Paths.of(study)
    patient_model = load_role(study, "patient")
    chat = chat_format(study, paths.model("actor"))
    patient = Patient(
        make_engine(study, patient_model),
        chat_format(study, paths.model("patient")),
        study.patient_decoding,
    )
    actor = Actor(make_engine(study, actor_model), chat, study.actor_decoding)
    return Setting(actor, patient, chat, study.protocol)


def make_scorer(study: Study) -> Scorer:
    """The frozen scorer: a model as it was before any fine-tuning."""
    tokenizer = load_tokenizer(Paths.of(study).model(study.starts_from("scorer")))
    return Scorer(make_engine(study, load_role(study, "scorer")), tokenizer)
