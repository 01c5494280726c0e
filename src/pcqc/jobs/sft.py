"""Shared SFT: from the base model to the actor, and on the way to the patient."""

from pcqc.config import Study, digest
from pcqc.files import write_jsonl
from pcqc.jobs.paths import Paths
from pcqc.jobs.setup import chat_format, load_role, single_threaded
from pcqc.models import load_model, save_model
from pcqc.provenance import inputs_fingerprint, source_fingerprint
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
    model = load_role(study, "base")
    chat = chat_format(study, paths.model("base"))
    protocol = study.protocol
    conversations = read_conversations(paths.conversations)
    examples = encode_conversations(
        conversations,
        lambda messages: chat.turns(messages, protocol.earlier_thinking),
        protocol.prompt_tokens + protocol.response_tokens,
    )
    optimizer = sft_optimizer(model, settings)
    plan = sft_plan(examples, settings, "sft", study.rl.tokens_per_micro_batch)
    per_epoch = steps_per_epoch(len(examples), settings)
    state = paths.root / "models" / "state" / f"sft-{_fingerprint(study, paths)}"
    kept = state / "patient"
    losses = []
    for step, loss in train_supervised(model, [optimizer], plan, state):
        losses.append({"step": step, "loss": loss})
        # Kept beside the state: a rerun finds it there, though its rule's outputs are deleted.
        if step == per_epoch * settings.patient_epochs and not kept.exists():
            save_model(kept, model, chat.tokenizer)
    patient = load_model(kept, study.engine.dtype)
    save_model(paths.model("patient"), patient, chat.tokenizer, {"epochs": settings.patient_epochs})
    save_model(paths.model("actor"), model, chat.tokenizer, {"epochs": settings.epochs})
    write_jsonl(paths.root / "models" / "sft_losses.jsonl", losses)


def _fingerprint(study: Study, paths: Paths) -> str:
    """Of everything that the outcome depends on; names the resumable state."""
    settings = study.to_dict()
    inputs = [paths.model("base") / "manifest.json", paths.conversations]
    return digest(
        [
            [settings[name] for name in ("sft", "protocol", "engine")],
            study.rl.tokens_per_micro_batch,
            inputs_fingerprint(inputs),
            source_fingerprint("pcqc.jobs.sft"),
        ]
    )
