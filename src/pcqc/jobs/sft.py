"""Shared SFT: from the base model to the actor, and on the way to the patient."""

import dataclasses

from pcqc.cases.chat import ChatFormat
from pcqc.cases.order import batches_per_pass
from pcqc.errors import UserError
from pcqc.jobs.learner import make_backend, write_model
from pcqc.jobs.setup import chat_format, start_weights
from pcqc.models.folder import load_model, save_model
from pcqc.study import Study
from pcqc.study.checked_data import check_data
from pcqc.study.job_outputs import job_output
from pcqc.study.paths import Paths
from pcqc.system.determinism import single_threaded
from pcqc.system.files import write_jsonl
from pcqc.system.processes import SINGLE_PROCESS, Processes
from pcqc.training.batching import TokenModel
from pcqc.training.sft import (
    Conversation,
    examples_of,
    read_conversations,
    sft_plan,
)
from pcqc.training.supervised import Example, train_supervised


def run_sft(study: Study, processes: Processes = SINGLE_PROCESS) -> None:
    """Train the actor for all epochs and the patient for its own (app:pcqc_frozen_setup).

    Both see the same conversations in the same order, so that where they start from the same
    weights the patient is a checkpoint of the actor's training. It stays frozen from then on.

    Every process learns from its share of each step; the first writes.
    """
    products = {role: job_output(study, "sft", model=role) for role in ("actor", "patient")}
    if all(processes.gather(all(one.stands() for one in products.values()))):
        return
    single_threaded(study.deterministic)
    epochs = {"actor": study.sft.epochs, "patient": study.sft.patient_epochs}
    if study.starts_from("patient") == study.starts_from("actor"):
        losses = _fine_tune(study, epochs, processes)
    else:
        losses = _fine_tune(study, {"actor": epochs["actor"]}, processes)
        if epochs["patient"]:
            _fine_tune(study, {"patient": epochs["patient"]}, processes)
        elif processes.is_main:
            _leave_as_it_starts(study, "patient")
    if processes.is_main:
        rows = [{"step": step, "loss": loss} for step, loss in enumerate(losses, start=1)]
        write_jsonl(Paths.of(study).root / "models" / "sft_losses.jsonl", rows)
        more = {"actor": ["sft_losses.jsonl"]}
        for role, one in products.items():
            one.finish([f"{role}/manifest.json", *more.get(role, [])])


def _fine_tune(study: Study, epochs: dict[str, int], processes: Processes) -> list[float]:
    """Train from the weights that the roles share, write each role after its epochs; the losses."""
    paths, first = Paths.of(study), next(iter(epochs))
    start = start_weights(study, first)
    model, chat = start.load(), chat_format(study, start.folder)
    examples = _examples(study, chat)
    settings = dataclasses.replace(study.sft, epochs=max(epochs.values()))
    plan = sft_plan(examples, settings, "sft", study.rl.tokens_per_micro_batch)
    per_epoch = batches_per_pass(len(examples), settings.batch_size)
    if processes.is_main:
        for role in epochs:
            job_output(study, "sft", model=role).begin()
    processes.barrier()
    fingerprint = job_output(study, "sft", model=first).receipt().made_from.fingerprint
    state = paths.root / "models" / "state" / f"sft-{first}-{fingerprint}"
    make = make_backend(study, processes)
    backend = make(TokenModel(model), settings.learning_rate, settings)
    losses = []
    for step, loss in train_supervised(backend, plan, state):
        losses.append(loss)
        for role, count in epochs.items():
            # Kept beside the state: a rerun finds it there, though its rule's outputs are deleted.
            ended = step == per_epoch * count < plan.steps
            if ended and not processes.gather((state / role).exists())[0]:
                write_model(state / role, model, backend, chat.tokenizer, {})
    for role, count in epochs.items():
        if count == settings.epochs:
            write_model(paths.model(role), model, backend, chat.tokenizer, {"epochs": count})
        elif processes.is_main:
            earlier = load_model(state / role if count else start.folder, start.dtype)
            save_model(paths.model(role), earlier, chat.tokenizer, {"epochs": count})
    return losses


def _leave_as_it_starts(study: Study, role: str) -> None:
    """Write a role that no epoch trains."""
    start = start_weights(study, role)
    job_output(study, "sft", model=role).begin()
    tokenizer = chat_format(study, start.folder).tokenizer
    save_model(Paths.of(study).model(role), start.load(), tokenizer, {"epochs": 0})


def _examples(study: Study, chat: ChatFormat) -> list[list[Example]]:
    """Of each conversation its examples, every state built as a consultation builds it."""
    path, protocol = Paths.of(study).conversations, study.protocol
    check_data(study, path)
    examples = [
        examples_of(_turns(conversation, chat, protocol.earlier_thinking))
        for conversation in read_conversations(path)
    ]
    limit = protocol.prompt_tokens + protocol.response_tokens
    longest = max(len(one.tokens) for of_one in examples for one in of_one)
    if longest > limit:
        raise UserError(
            f"{path}: a conversation has {longest} tokens, over the protocol's {limit}; raise "
            "protocol.response_tokens or remove the row"
        )
    return examples


def _turns(conversation: Conversation, chat: ChatFormat, earlier_thinking: str) -> list:
    """(state, response) token ids of each turn to train on."""
    turns = chat.turns(conversation.messages, earlier_thinking)
    turns = turns if conversation.train == "all" else turns[-1:]
    if conversation.facts:
        turns += chat.answers(conversation.messages, conversation.facts)
    return turns
