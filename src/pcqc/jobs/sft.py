"""Shared SFT: from the base model to the actor, and on the way to the patient."""

from pcqc.config import Study, digest
from pcqc.files import write_jsonl
from pcqc.jobs.paths import Paths
from pcqc.jobs.setup import chat_format, single_threaded
from pcqc.models import load_model, save_model
from pcqc.training.sft import (
    encode_conversations,
    read_conversations,
    sft_optimizer,
    sft_plan,
    steps_per_epoch,
)
from pcqc.training.supervised import train_supervised


def run_sft(study: Study) -> None:
    """Train the actor for all epochs and keep the patient after its own (Appendix A.2).

    Both start as the base model and see the same conversations in the same order, so the patient
    is a checkpoint of the actor's training. It stays frozen from then on.
    """
    single_threaded()
    paths, settings = Paths.of(study), study.sft
    chat = chat_format(study, paths.model("base"))
    protocol = study.protocol
    conversations = read_conversations(paths.conversations)
    examples = encode_conversations(
        conversations,
        lambda messages: chat.turns(messages, protocol.earlier_thinking),
        protocol.prompt_tokens + protocol.response_tokens,
    )
    model = load_model(paths.model("base"), study.engine.dtype)
    optimizer = sft_optimizer(model, settings)
    plan = sft_plan(examples, settings, "sft", study.rl.tokens_per_micro_batch)
    per_epoch = steps_per_epoch(len(examples), settings)
    state = (
        paths.root / "models" / "state" / f"sft-{digest([study.to_dict()['sft'], conversations])}"
    )
    losses = []
    for step, loss in train_supervised(model, [optimizer], plan, state):
        losses.append({"step": step, "loss": loss})
        if step == per_epoch * settings.patient_epochs:
            save_model(paths.model("patient"), model, chat.tokenizer, {"step": step})
    save_model(paths.model("actor"), model, chat.tokenizer, {"step": plan.steps})
    write_jsonl(paths.root / "models" / "sft_losses.jsonl", losses)
