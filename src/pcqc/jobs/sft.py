"""Supervised fine-tuning of the base model to the actor, and on the way to the patient."""

import dataclasses
import shutil
from pathlib import Path

from pcqc.cases.chat import ChatFormat
from pcqc.cases.order import batches_per_pass
from pcqc.determinism import single_threaded
from pcqc.jobs.instruction import chat_format
from pcqc.jobs.learner import make_backend, write_model
from pcqc.jobs.make_roles import role_weights
from pcqc.models.folder import MANIFEST, check_folder, load_model, save_folder, save_model
from pcqc.training.batching import TokenModel
from pcqc.training.sft import examples_of, read_conversations, sft_plan
from pcqc.training.supervised import Example, train_supervised
from pcqc_base.errors import UserError
from pcqc_base.system.files import write_jsonl
from pcqc_base.system.manifest import checked
from pcqc_base.system.processes import SINGLE_PROCESS, Processes
from pcqc_base.task import Task


def run(task: Task, processes: Processes = SINGLE_PROCESS) -> None:
    """Train the actor for all epochs and the patient for its own (app:pcqc_frozen_setup).

    Both see the same conversations in the same order, so that where they start from the same
    weights the patient is a checkpoint of the actor's training. It stays frozen from then on.

    Every process learns from its share of each step; the first writes.
    """
    settings = task.settings
    single_threaded(settings.deterministic)
    epochs = {"actor": settings.sft.epochs, "patient": settings.sft.patient_epochs}
    if task.inputs["patient"] == task.inputs["actor"]:
        losses = _fine_tune(task, epochs, processes)
    else:
        losses = _fine_tune(task, {"actor": epochs["actor"]}, processes)
        _fine_tune(task, {"patient": epochs["patient"]}, processes)
    if processes.is_main:
        rows = [{"step": step, "loss": loss} for step, loss in enumerate(losses, start=1)]
        write_jsonl(task.folder / "losses.jsonl", rows)


def _fine_tune(task: Task, epochs: dict[str, int], processes: Processes) -> list[float]:
    """Train from the weights that the roles share, write each role after its epochs; the losses."""
    if not any(epochs.values()):
        if processes.is_main:
            for role in epochs:
                _leave_as_it_starts(task, role)
        return []
    first = next(iter(epochs))
    start = role_weights(task, first)
    chat = chat_format(task, start.folder)
    examples = _examples(
        task, chat, limited=first == "actor"
    )  # before the model: a fault of the file needs none
    model = start.load()
    settings = dataclasses.replace(task.settings.sft, epochs=max(epochs.values()))
    plan = sft_plan(examples, settings, "sft", task.settings.tokens_per_micro_batch)
    per_epoch = batches_per_pass(len(examples), settings.batch_size)
    state = task.state / first
    make = make_backend(task.where, processes)
    backend = make(TokenModel(model), settings.learning_rate, settings)
    losses = []
    for step, loss in train_supervised(backend, plan, state):
        losses.append(loss)
        for role, count in epochs.items():
            ended = step == per_epoch * count < plan.steps
            if ended and not processes.gather((state / role).exists())[0]:
                write_model(state / role, model, backend, chat.tokenizer, {})
    for role, count in epochs.items():
        if count == settings.epochs:
            write_model(task.folder / role, model, backend, chat.tokenizer, {"epochs": count})
        elif processes.is_main:
            earlier = load_model(state / role if count else start.folder, start.dtype)
            save_model(task.folder / role, earlier, chat.tokenizer, {"epochs": count})
    return losses


def _leave_as_it_starts(task: Task, role: str) -> None:
    """Copy the files of a role that no epoch trains."""
    start = role_weights(task, role)
    check_folder(start.folder, start.remedy)

    def copy(folder: Path) -> None:
        shutil.copytree(
            start.folder, folder, ignore=shutil.ignore_patterns(MANIFEST), dirs_exist_ok=True
        )

    save_folder(task.folder / role, copy, {"epochs": 0})


def _examples(task: Task, chat: ChatFormat, limited: bool) -> list[list[Example]]:
    """Of each conversation its examples, every state built as a consultation builds it.

    Raises:
        UserError: a conversation is longer than the protocol lets the actor's be, and `limited`.
    """
    path: Path = checked(task.inputs["conversations"])
    protocol = task.settings.protocol
    limit, examples = protocol.prompt_tokens + protocol.response_tokens, []
    for conversation in read_conversations(path):
        turns = chat.turns(conversation.messages, protocol.earlier_thinking)
        turns = turns if conversation.train == "all" else turns[-1:]
        longest = max(len(state) + len(response) for state, response in turns)
        if limited and longest > limit:
            raise UserError(
                f"{path}: a conversation has {longest} tokens, over the protocol's {limit}; raise "
                "protocol.response_tokens or remove the row"
            )
        if conversation.facts:  # the patient's own prompts hold all of them
            turns += chat.answers(conversation.messages, conversation.facts)
        examples.append(examples_of(turns))
    return examples
