"""Core configuration of a study, from its settings."""

from pathlib import Path

from analysis.budgets import trained
from analysis.collected import Collected
from analysis.table import Column, Row, Statement, Table, ends, listed
from pcqc.cases.order import batches_per_pass
from pcqc_base.settings import Pretrained
from pcqc_study.study_file import Study

# Key, what it is, how it is set: a `Statement` where it is compared with the paper's by meaning.
Setting = tuple[str, str, str]


def build(collected: Collected) -> Table:
    """Every item as the study sets it."""
    study = collected.study
    settings = [*_models(study), *_sampling(collected), *_training(collected), *_decoding(study)]
    if study.clinic:
        world = study.clinic
        text = (
            f"{world.diseases} diseases with a sign each, noise {world.noise:g}; "
            f"{world.complaints} complaints, {world.complaint_odds:g} times likelier in half"
        )
        settings.append(("world", "Synthetic world", text))
    rows = tuple(Row(key, (item, setting)) for key, item, setting in settings)
    columns = (Column("item", "Item", numeric=False), Column("setting", "Setting", numeric=False))
    return Table("configuration", f"Core configuration: {study.title}.", "", columns, rows)


def _models(study: Study) -> list[Setting]:
    start, answers = study.sft.epochs, study.sft.patient_epochs
    start_text, answers_text = _epochs(study, start), _epochs(study, answers)
    if study.models:
        actor = _weights(study.models.actor)
        responder = _weights(study.models.patient or study.models.actor)
        scorer = f"Frozen {_weights(study.models.scorer or study.models.actor)}"
        patient: str = Statement(
            f"Frozen {responder}; SFT, {answers_text}",
            [responder, answers, _steps(study, answers)],
        )
    else:
        model = study.scratch_model
        actor = f"Qwen3 architecture, {model.layers} layers of width {model.width}, from scratch"
        patient = f"Frozen, of the same base; SFT, {answers_text}"
        scorer = "Frozen base, as before fine-tuning"
    initialization = Statement(f"Shared SFT, {start_text}", [start, _steps(study, start)])
    return [
        ("actor", "Actor backbone", actor),
        ("actor_initialization", "Actor initialization", initialization),
        ("patient", "Patient responder", patient),
        ("scorer", "PCQC diagnostic scorer", scorer),
    ]


def _weights(model: Pretrained) -> str:
    """The weights' usual name: of the file, of the published model, of the repository."""
    if model.sha256:
        return "/".join(Path(model.source).parts[-2:])
    return model.gguf.removesuffix(".gguf") if model.gguf else Path(model.source).name


def _epochs(study: Study, count: int) -> str:
    """`3 epochs, step 96`."""
    if not count:
        return "as published"
    steps = _steps(study, count)
    return f"{count} epoch{'' if count == 1 else 's'}" + (f", step {steps}" if steps else "")


def _steps(study: Study, epochs: int) -> int | None:
    """Optimiser steps of so many epochs; None where the settings leave open of how many rows."""
    rows = study.clinic.sft_conversations if study.clinic else None
    if study.data:
        rows = study.data.conversations if study.data.sft else study.data.sft_cases
    return epochs * batches_per_pass(rows, study.sft.batch_size) if rows else None


def _sampling(collected: Collected) -> list[Setting]:
    study = collected.study
    ran = {name: study.method(name) for name in collected.methods()}
    turns = f"{study.protocol.max_turns}, including the final answer"
    settings = [
        ("max_turns", "Maximum dialogue turns", turns),
        ("cases_per_update", "Cases per RL update", str(study.rl.cases_per_update)),
    ]
    if grpo := ran.get("grpo"):
        group = str(grpo.terminal_group)
        settings.append(("grpo_terminal_group", "GRPO terminal group G_T", group))
    if pcqc := ran.get("pcqc"):
        asked = f"{pcqc.question_group}; question states in the first consultation trajectory"
        settings += [
            ("pcqc_terminal_group", "PCQC terminal group G_T", str(pcqc.terminal_group)),
            ("pcqc_question_group", "PCQC question group G_Q", asked),
            ("pcqc_beta", "PCQC question-loss weight β", f"{pcqc.beta:g}"),
        ]
    if atpo := ran.get("atpo"):
        tree = (
            f"{atpo.tree.candidates} candidates at an expanded state, up to {atpo.tree.budget} "
            "consultations a case"
        )
        settings.append(("atpo_tree", "ATPO tree of a case", tree))
    return settings


def _training(collected: Collected) -> list[Setting]:
    study = collected.study
    methods = {name: study.method(name) for name in trained(collected)}
    counts = {n: len(m.runs) for n, m in methods.items() if m.role == "method"}
    runs = Statement(", ".join(f"{m.title} {len(m.runs)}" for m in methods.values()), counts)
    updates = [f"{method.title} {_updates(collected, name)}" for name, method in methods.items()]
    kl = {method.kl_coefficient for method in methods.values() if method.method != "atpo"}
    rates = {
        method.title: f"{study.rl_of(method).learning_rate:g}"
        for method in methods.values()
        if method.method != "atpo"
    }
    of_each = ", ".join(f"{title} {rate}" for title, rate in rates.items())
    rate = next(iter(rates.values())) if len({*rates.values()}) == 1 else of_each
    optimizer = (
        f"AdamW, learning rate {rate}, weight decay {study.rl.weight_decay:g}, clip "
        f"{study.rl.clip:g}, KL coefficient {listed([f'{value:g}' for value in sorted(kl)])}"
    )
    settings = [
        ("runs", "Independent RL training runs", runs),
        ("updates", "RL updates", ", ".join(updates)),
        ("optimizer", "Policy optimization", optimizer),
    ]
    if "atpo" in collected.methods():
        atpo = study.method("atpo")
        rate = atpo.tree.actor_learning_rate or study.rl_of(atpo).learning_rate
        own = (
            f"learning rate {rate:g} of the actor and {atpo.tree.critic_learning_rate:g} of the "
            f"critic, clip {study.rl.clip:g} below and {atpo.tree.clip_high:g} above, KL "
            f"coefficient {atpo.kl_coefficient:g}, advantage "
            f"{atpo.tree.advantage.replace('_', ' ')}; else the same"
        )
        settings.append(("atpo_optimizer", "ATPO optimization", own))
    return settings


def _updates(collected: Collected, name: str) -> str:
    """`60`; where a run may end before, `up to 240 (made 90–150, 2 of 3 runs levelled off)`."""
    method = collected.study.method(name)
    if not collected.study.may_level_off(method):
        return str(method.updates)
    runs = collected.runs(name)
    made = [collected.record(name, run)["training"]["updates"] for run in runs]
    levelled = sum(collected.levelled_off(name, run) for run in runs)
    return (
        f"up to {method.updates} (made {ends(made)}, {levelled} of {len(runs)} runs levelled off)"
    )


def _decoding(study: Study) -> list[Setting]:
    actor, patient = (
        f"temperature {decoding.temperature:g}, top-p {decoding.top_p:g}, "
        f"at most {decoding.max_tokens} tokens"
        for decoding in (study.actor_decoding, study.patient_decoding)
    )
    actor += f"; rollouts of training at temperature 1 and top-p {study.rl.rollout_top_p:g}"
    return [
        ("actor_decoding", "Actor decoding", actor),
        ("patient_decoding", "Patient decoding", patient),
    ]
