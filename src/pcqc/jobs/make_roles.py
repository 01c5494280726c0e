"""What jobs with consultations need: weights, tokenizers, engines and roles."""

import gc
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from typing import Literal, TypeVar

import torch

from pcqc.cases.case import Case, read_cases
from pcqc.cases.chat import ChatFormat
from pcqc.consultation import RolloutContext
from pcqc.engines.base import Engine
from pcqc.engines.weight_update import WeightUpdate
from pcqc.jobs.instruction import chat_format
from pcqc.models.folder import check_folder, load_model, load_tokenizer
from pcqc.roles import Actor, Patient, Scorer
from pcqc.training.policy import Policy
from pcqc_base.errors import UserError
from pcqc_base.settings.models import Server
from pcqc_base.system.files import read_json, sha256_file
from pcqc_base.system.manifest import checked, read_manifest
from pcqc_base.system.processes import require_gpu
from pcqc_base.task import CHAT, SERVER, VLLM, Task

T = TypeVar("T")

SYNC_PROMPTS = 4
# How far rounding alone may set two implementations apart in a log-probability, on average: the
# logit of an unlikely token is tens below the likeliest, where bfloat16 has steps of a quarter.
SYNC_TOLERANCE = {"float32": 1e-3, "bfloat16": 0.5}


def checked_cases(path: Path) -> list[Case]:
    """Cases of a file, after it was compared with its manifest."""
    return read_cases(checked(path))


@dataclass(frozen=True)
class Weights:
    """A model on disk.

    Attributes:
        folder: with weights, tokenizer and manifest.
        dtype: number format to hold the weights in.
    """

    folder: Path
    dtype: str

    @property
    def remedy(self) -> str:
        """What to do where the model is damaged, for an error."""
        return f"move {self.folder} away and run the workflow again"

    def load(self):
        """The model, checked; see `load_model`."""
        return load_model(self.folder, self.dtype, self.remedy)


def weights_of(folder: Path, dtype: str) -> Weights:
    """The model in a folder, after the folder's manifest was compared with its job's."""
    checked(folder / "manifest.json")
    return Weights(folder, dtype)


def role_weights(task: Task, role: str) -> Weights:
    """Weights of `actor`, `patient` or `scorer`."""
    return weights_of(task.inputs[role], task.settings.dtypes[role])


def selected_weights(task: Task) -> tuple[int, str, Weights]:
    """Number of updates, digest and weights of a run's selected checkpoint.

    Raises:
        UserError: the choice or the checkpoint is not the one that was written.
    """
    update = read_json(checked(task.inputs["selection"]))["selected"]["update"]
    if not update:
        weights = role_weights(task, "actor")
        return 0, sha256_file(weights.folder / "manifest.json"), weights
    return update, *checkpoint_weights(task, update)


def checkpoint_weights(task: Task, update: int) -> tuple[str, Weights]:
    """Digest and weights of the checkpoint after so many updates."""
    folder = task.inputs["run"]
    checkpoints = read_manifest(folder)["checkpoints"]
    entry = next((entry for entry in checkpoints if entry["update"] == update), None)
    if entry is None:
        raise UserError(f"{folder}: the run has no checkpoint of update {update}")
    return entry["digest"], weights_of(folder / entry["path"], task.settings.dtypes["actor"])


def make_engine(
    task: Task,
    role: Literal["actor", "patient", "scorer"],
    weights: Weights,
    model=None,
    server: Server | None = None,
) -> Engine:
    """The engine of a role.

    Args:
        task: whose settings say what runs the role.
        role: whose engine; a served one needs no weights here.
        weights: what it starts with.
        model: the learner's module, for an engine that can share it.
        server: that runs the role.
    """
    settings, where = task.settings.engine, task.where
    if server:
        engine = resolve_name(SERVER)(server)
        engine.check_weights(weights.folder)
        return engine
    if where.placement:
        require_gpu(where.placement.device)
    sizes = {"batch_size": settings.batch_size, "cache_tokens": settings.cache_tokens}
    if role == "actor" and where.cache_tokens:
        sizes["cache_tokens"] = where.cache_tokens
    if settings.kind == "vllm":
        return _vllm_engine(task, role, weights, sizes)
    from pcqc.engines.transformers import TransformersEngine

    return TransformersEngine(weights.load() if model is None else model, **sizes)


def _vllm_engine(task: Task, role: str, weights: Weights, sizes: dict[str, int]) -> Engine:
    """An engine in vLLM, placed as the study places the role."""
    settings, where = task.settings.engine, task.where
    check_folder(weights.folder, weights.remedy)
    placed = getattr(where.placement, role, None)
    return resolve_name(VLLM)(
        weights.folder,
        dtype=weights.dtype,
        own_process=settings.process == "own",
        tensor_parallel=placed.tensor_parallel if placed else 1,
        sleeps=placed.sleeps if placed else where.placement is None,
        working_gib=where.assumptions.engine_working_gib,
        float32_head=settings.float32_head,
        renewed=role == "actor",  # it sleeps in training alone
        transfer=where.placement.transfer if where.placement else "handles",
        **sizes,
    )


def make_answering(
    task: Task, role: Literal["patient", "scorer"], weights: Weights | None = None
) -> tuple[Engine, ChatFormat]:
    """The engine of a frozen role that answers prompts, and its chat format.

    Args:
        task: settings and models.
        role: whose server answers, where it has one.
        weights: by default the role's own; a server of chat completions needs none.
    """
    return _frozen(task, role, weights, partial(chat_format, task))


def _frozen(
    task: Task,
    role: Literal["patient", "scorer"],
    weights: Weights | None,
    text_of: Callable[[Path], T],
) -> tuple[Engine, T]:
    """The engine of a frozen role, and `text_of` its folder: what makes tokens of a text.

    A server of chat completions has no folder, and its own text.
    """
    if server := task.where.servers.chats.get(role):
        engine = resolve_name(CHAT)(server)
        return engine, engine.text
    weights = weights or role_weights(task, role)
    engine = make_engine(task, role, weights, server=getattr(task.where.servers, role))
    return engine, text_of(weights.folder)


def make_context(
    task: Task, actor: Weights, model=None, patient: Weights | None = None
) -> RolloutContext:
    """Actor and patient.

    Args:
        task: settings and models.
        actor: the actor's weights.
        model: the learner's module, where the actor is being trained.
        patient: the patient's weights; by default its SFT checkpoint's.
    """
    settings = task.settings
    chat = chat_format(task, task.inputs["actor"])
    responder = Patient(*make_answering(task, "patient", patient), settings.patient_decoding)
    doctor = Actor(make_engine(task, "actor", actor, model), chat, settings.actor_decoding)
    # Libraries and models stay until the job ends: walking them again and again for garbage took a
    # seventh of a small model's evaluation.
    gc.freeze()
    return RolloutContext(doctor, responder, chat, settings.protocol)


def make_weight_update(
    task: Task, context: RolloutContext, policy: Policy, cases: Sequence[Case]
) -> Callable[[Iterable[tuple[str, torch.Tensor]]], float | None]:
    """What hands named weights to the actor's engine before it samples.

    An engine that shares the learner's module has them. Any other gets them, and is then compared
    with the learner: the mean difference of log-probabilities (`sync/gap`) is returned.

    Args:
        task: settings.
        context: whose actor it is.
        policy: the learner's.
        cases: both are compared on the opening prompts of the first few.
    """
    settings = task.settings
    if settings.engine.kind == "transformers" and policy.backend.unsharded:
        return context.actor.engine.load_weights
    tolerance = settings.engine.sync_tolerance or SYNC_TOLERANCE[settings.dtypes["actor"]]
    prompts = [context.chat.open(case.public) for case in cases[:SYNC_PROMPTS]]
    return WeightUpdate(context.actor.engine, policy.next_logprobs, prompts, tolerance)


def make_scorer(task: Task, weights: Weights | None = None) -> Scorer:
    """The frozen scorer: by default a model as it was before any fine-tuning."""
    return Scorer(*_frozen(task, "scorer", weights, load_tokenizer))
