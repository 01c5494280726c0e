"""Trains the clinic's base model, which takes the place of downloaded pretrained weights.

The base model knows the diseases and can answer from facts. Frozen, it is the scorer. Fine-tuned,
it becomes the actor and the patient.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from clinic_env.posterior import posterior
from clinic_env.world import World, read_findings
from pcqc.cases.chat import ChatFormat
from pcqc.determinism import single_threaded
from pcqc.models.folder import save_model
from pcqc.seeds import generator
from pcqc.training.backend import TorchBackend
from pcqc.training.batching import TokenModel, hidden_states, pad
from pcqc.training.supervised import Example, Plan, train_supervised
from pcqc_base.errors import UserError
from pcqc_base.settings import ScratchModel
from pcqc_base.system.files import write_jsonl
from pcqc_clinic.corpus import (
    KINDS,
    Subject,
    draw_subject,
    evidence,
    glossary,
    patient_answer,
    recall,
    weighted,
)
from pcqc_clinic.muon import Muon
from pcqc_clinic.tokenizer import make_tokenizer

# Levels of look-ups: number of options, and the share of look-ups whose question and answer are as
# far apart as in prompts. The next level begins when the loss of the last one is low.
LEVELS = ((2, 0.0), (3, 0.0), (4, 0.0), (4, 0.3), (4, 0.7), (6, 1.0), (8, 1.0))
FACTS = 0.4  # share of look-ups that ask for a fact rather than a label
WINDOW = 8  # steps over which a level's loss is averaged
VALIDATED = 500  # documents of the scorer, and as many of the patient
# Kinds of document after the look-ups: share, and weight of one document in the loss. First
# diagnoses with decisive evidence, then the mixture that the roles will see.
SUMMARIES = {
    "glossary": (0.05, 0.5),
    "recall": (0.1, 0.5),
    "labelled summary": (0.6, 1.0),
    "named summary": (0.15, 1.0),
    "reasoned evidence": (0.1, 2.0),
}
MIXTURE = {
    "glossary": (0.04, 1.0),
    "recall": (0.04, 2.0),
    "evidence": (0.42, 1.0),
    "reasoned evidence": (0.1, 2.0),
    "consultation": (0.28, 4.0),
    "patient": (0.12, 2.0),
}


@dataclass(frozen=True)
class Stage:
    """Stage of the curriculum at one step.

    Attributes:
        level: index into LEVELS; `len(LEVELS)` is the summaries, `len(LEVELS) + 1` the mixture.
        step: steps taken at this level.
    """

    level: int
    step: int

    @property
    def summaries(self) -> bool:
        """Whether documents are those of `SUMMARIES`."""
        return self.level == len(LEVELS)

    @property
    def mixture(self) -> bool:
        """Whether documents are those of `MIXTURE`, the last stage."""
        return self.level > len(LEVELS)


def current_stage(losses: Sequence[float], settings: ScratchModel) -> Stage:
    """The stage after the losses so far; it needs no state beside them."""
    level = start = 0
    for step in range(1, len(losses) + 1):
        if level > len(LEVELS):
            break
        summaries = level == len(LEVELS)
        learned = settings.summary_loss if summaries else settings.look_up_loss
        recent = losses[max(start, step - WINDOW) : step]
        if len(recent) == WINDOW and sum(recent) < WINDOW * learned:
            level, start = level + 1, step
    return Stage(level, len(losses) - start)


def pretrain(
    world: World,
    settings: ScratchModel,
    instruction: str,
    *,
    tokens_per_micro_batch: int,
    models: Path,
    state: Path,
) -> None:
    """Train the base model and write it with its tokenizer and its validation scores.

    Args:
        world: whose texts it learns.
        settings: sizes and curriculum.
        instruction: the actor's system message.
        tokens_per_micro_batch: most tokens in memory at once.
        models: folder; gets `base/` and the loss of every step.
        state: folder of the resumable state.

    Raises:
        UserError: the model is not sound after `most_steps`.
    """
    single_threaded()
    tokenizer = make_tokenizer(world, instruction)
    chat = ChatFormat(tokenizer, instruction)
    model = make_model(settings, len(tokenizer), tokenizer)
    scores = cache(lambda step: validate(world, chat, model, settings.seed))
    backend = TorchBackend(
        TokenModel(model), make_optimizers(model, settings), max_gradient_norm=1.0
    )
    plan = Plan(
        batch=lambda step, losses: draw_batch(world, chat, settings, step, losses),
        steps=settings.most_steps,
        rate=lambda step, losses: learning_rate(step, losses, settings),
        tokens_per_micro_batch=tokens_per_micro_batch,
        save_every=100,
        label="base model",
        finished=lambda losses: is_finished(losses, settings, scores),
    )
    losses = [loss for _, loss in train_supervised(backend, plan, state)]
    steps = len(losses)
    if not is_finished(losses, settings, scores):
        raise UserError(
            f"the base model is not sound after {steps} steps: "
            f"{_shortcoming(current_stage(losses, settings), lambda: scores(steps))}; raise "
            f"scratch_model.most_steps, or change scratch_model.seed"
        )
    rows = [{"step": i + 1, "loss": loss} for i, loss in enumerate(losses)]
    write_jsonl(models / "losses.jsonl", rows)
    save_model(models / "base", model, tokenizer, {"steps": steps, "validation": scores(steps)})


def make_model(settings: ScratchModel, vocabulary: int, tokenizer) -> Qwen3ForCausalLM:
    """A Qwen3-architecture model, initialised from the settings' seed."""
    torch.manual_seed(settings.seed)
    config = Qwen3Config(
        vocab_size=vocabulary,
        hidden_size=settings.width,
        intermediate_size=settings.hidden,
        num_hidden_layers=settings.layers,
        num_attention_heads=settings.heads,
        num_key_value_heads=settings.kv_heads,
        head_dim=settings.head_dim,
        initializer_range=settings.initialization,
        # Tied weights help the model find a diagnosis among the options.
        tie_word_embeddings=True,
        max_position_embeddings=1024,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return Qwen3ForCausalLM(config).eval()


def make_optimizers(model, settings: ScratchModel) -> list[torch.optim.Optimizer]:
    """Muon for the layers' matrices, AdamW for embeddings and norms."""
    matrices = [p for n, p in model.named_parameters() if p.ndim == 2 and "embed" not in n]
    chosen = {id(p) for p in matrices}
    others = [p for p in model.parameters() if id(p) not in chosen]
    return [
        Muon(matrices, lr=5 * settings.learning_rate),
        torch.optim.AdamW(others, lr=settings.learning_rate, weight_decay=0.0),
    ]


def draw_batch(world, chat, settings: ScratchModel, step: int, losses) -> list[Example]:
    """Documents of a step; they depend on the seed, the step's number and its stage alone."""
    stage = current_stage(losses, settings)
    rng = generator(settings.seed, "corpus", step)
    count = settings.documents_per_step
    if not (stage.summaries or stage.mixture):
        return [_look_up(draw_subject(world, chat, rng), stage.level) for _ in range(count)]
    kinds = MIXTURE if stage.mixture else SUMMARIES
    count = count if stage.mixture else 2 * count
    return [
        weighted(KINDS[kind](draw_subject(world, chat, rng)), weight)
        for kind, (share, weight) in kinds.items()
        for _ in range(round(share * count))
    ]


def _look_up(subject: Subject, level: int) -> Example:
    options, spaced = LEVELS[level]
    if subject.rng.random() < FACTS:
        return weighted(recall(subject, spaced), 1.0)
    most = min(options, len(subject.world.diseases))
    return weighted(glossary(subject, most, spaced), 1.0)


def learning_rate(step: int, losses, settings: ScratchModel) -> float:
    """Factor of the learning rate: warm-up, then decay over the last 60 % of each mixture round."""
    warm = min(1.0, (step + 1) / settings.warmup_steps)
    stage = current_stage(losses, settings)
    if not stage.mixture:
        return warm
    left = 1 - stage.step % settings.mixture_steps / settings.mixture_steps
    return warm * min(1.0, max(0.03, left / 0.6))


def is_finished(
    losses: Sequence[float], settings: ScratchModel, scores: Callable[[int], dict[str, float]]
) -> bool:
    """Whether a round of the mixture has just ended with a sound model; else another round follows.

    Args:
        losses: all steps' so far.
        settings: with the accuracies that make a model sound.
        scores: step -> `validate` of the model at that step; called at the end of a round.
    """
    stage = current_stage(losses, settings)
    rounds, rest = divmod(stage.step, settings.mixture_steps)
    if not stage.mixture or rest or rounds < settings.least_rounds:
        return False
    reached = scores(len(losses))
    return (
        reached["patient_accuracy"] >= settings.least_patient_accuracy
        and reached["scorer_accuracy"] >= reached["bayes_accuracy"] - settings.most_scorer_gap
    )


def _shortcoming(reached: Stage, scores: Callable[[], dict[str, float]]) -> str:
    """How far a model that is not sound has come."""
    if not reached.mixture:
        return f"it is at level {reached.level + 1} of {len(LEVELS) + 2} of its curriculum"
    return ", ".join(f"{name} {value:.3f}" for name, value in scores().items())


@torch.no_grad()
def validate(world: World, chat: ChatFormat, model, seed: int) -> dict[str, float]:
    """Validation scores of the base model on fresh documents, `VALIDATED` of each kind.

    Returns:
        `scorer_accuracy` and `bayes_accuracy` of labels on the same evidence, and
        `patient_accuracy`, the share of exactly correct answers.
    """
    rng = generator(seed, "marks")  # another name would draw other documents
    subjects = [draw_subject(world, chat, rng) for _ in range(VALIDATED)]
    scored = [evidence(subject) for subject in subjects]
    bayes = 0
    for subject, example in zip(subjects, scored, strict=True):
        stated = read_findings(world, chat.tokenizer.decode(example.tokens))
        best = int(np.argmax(posterior(world, subject.case, stated)))
        bayes += list(subject.case.options)[best] == subject.case.answer
    answered = [patient_answer(draw_subject(world, chat, rng)) for _ in range(VALIDATED)]
    return {
        "scorer_accuracy": _share_correct(model, scored),
        "bayes_accuracy": bayes / VALIDATED,
        "patient_accuracy": _share_correct(model, answered),
    }


def _share_correct(model, examples: Sequence[Example]) -> float:
    """Share of examples whose weighted tokens are all the argmax."""
    correct = 0
    for start in range(0, len(examples), 100):
        part = examples[start : start + 100]
        padded = pad(part, [np.array(e.weights) > 0 for e in part], next(model.parameters()).device)
        hidden = hidden_states(model.model, padded)
        likeliest = model.lm_head(hidden[padded.rows, padded.columns - 1]).argmax(-1)
        wrong = padded.rows[likeliest != padded.ids[padded.rows, padded.columns]]
        correct += len(part) - len(set(wrong.tolist()))
    return correct / len(examples)
