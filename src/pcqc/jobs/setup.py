"""What several jobs need: checked cases, weights, tokenizers, engines and roles."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch

from pcqc.cases.case import Case, read_cases
from pcqc.cases.chat import ChatFormat
from pcqc.consultation import RolloutContext
from pcqc.engines.base import Engine
from pcqc.engines.sync import WeightSync
from pcqc.errors import UserError
from pcqc.models.folder import check_folder, load_model, load_tokenizer
from pcqc.roles import Actor, Patient, Scorer
from pcqc.study import Study
from pcqc.study.checked_data import check_data
from pcqc.study.instruction import read_instruction
from pcqc.study.job_outputs import job_output
from pcqc.study.paths import Paths
from pcqc.system.processes import require_gpu
from pcqc.training.policy import Policy

SYNC_PROMPTS = 4
# How far rounding alone may set two implementations apart in a log-probability: the logit of an
# unlikely token is tens below the likeliest, where bfloat16 has steps of a quarter.
SYNC_TOLERANCE = {"float32": 1e-3, "bfloat16": 1.0}


def read_checked_cases(study: Study, path: Path) -> list[Case]:
    """Cases of a file below `data/`, compared with the digest that its maker wrote."""
    if not path.exists():
        raise UserError(f"{path}: missing; run the workflow again")
    cases = read_cases(path)
    check_data(study, path)
    return cases


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
    if (folder / "manifest.json").exists():
        job_output(study, command, model=model).require(f"{model}/manifest.json")
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
    if study.placement:
        require_gpu(study.placement.device)
    if settings.kind == "vllm":
        from pcqc.engines.vllm import VllmEngine

        check_folder(weights.folder, weights.remedy)
        placed = getattr(study.placement, role, None)
        return VllmEngine(
            weights.folder,
            dtype=weights.dtype,
            own_process=settings.process == "own",
            tensor_parallel=placed.tensor_parallel if placed else 1,
            sleeps=placed.sleeps if placed else study.placement is None,
            working_gib=study.assumptions.engine_working_gib,
            **sizes,
        )
    from pcqc.engines.transformers import TransformersEngine

    return TransformersEngine(weights.load() if model is None else model, **sizes)


def make_context(study: Study, actor: Weights, model=None) -> RolloutContext:
    """Actor and patient; the patient's weights are its SFT checkpoint's.

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
    return RolloutContext(Actor(engine, chat, study.actor_decoding), patient, chat, study.protocol)


def make_sync(
    study: Study, context: RolloutContext, policy: Policy, cases: Sequence[Case]
) -> Callable[[Iterable[tuple[str, torch.Tensor]]], float | None]:
    """What copies named weights to the actor's engine before it samples.

    An engine that shares the learner's module has them; any other is compared with the learner, and
    the difference returned.

    Args:
        study: settings.
        context: whose actor it is.
        policy: the learner's.
        cases: of whose opening prompts the first few are what both are compared on.
    """
    if study.engine.kind == "transformers" and policy.backend.unsharded:
        return context.actor.engine.load_weights
    tolerance = study.engine.sync_tolerance or SYNC_TOLERANCE[study.dtype("actor")]
    prompts = [context.chat.open(case.public) for case in cases[:SYNC_PROMPTS]]
    return WeightSync(context.actor.engine, policy.next_logprobs, prompts, tolerance)


def make_scorer(study: Study) -> Scorer:
    """The frozen scorer: a model as it was before any fine-tuning."""
    weights = role_weights(study, "scorer")
    return Scorer(make_engine(study, "scorer", weights), load_tokenizer(weights.folder))
