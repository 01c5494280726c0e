"""Core configuration of a study, from its settings."""

from pathlib import Path

from analysis.budgets import trained
from analysis.collected import Collected
from analysis.table import Column, Row, Statement, Table, listed
from pcqc.study import Decoding, Method, Pretrained, Study

ROLLOUTS = "rollouts of training at temperature 1 and top-p 1"
ITEMS = {
    "actor": "Actor backbone",
    "actor_initialization": "Actor initialization",
    "patient": "Patient responder",
    "scorer": "PCQC diagnostic scorer",
    "max_turns": "Maximum dialogue turns",
    "cases_per_update": "Cases per RL update",
    "grpo_terminal_group": "GRPO terminal group G_T",
    "pcqc_terminal_group": "PCQC terminal group G_T",
    "pcqc_question_group": "PCQC question group G_Q",
    "pcqc_beta": "PCQC question-loss weight β",
    "atpo_tree": "ATPO tree of a case",
    "runs": "Independent RL training runs",
    "updates": "RL updates",
    "optimizer": "Policy optimization",
    "atpo_optimizer": "ATPO optimization",
    "actor_decoding": "Actor decoding",
    "patient_decoding": "Patient decoding",
    "world": "Synthetic world",
}


def build(collected: Collected) -> Table:
    """Every item as the study sets it."""
    study = collected.study
    settings = _models(study) | _sampling(collected) | _training(collected)
    meaning = {
        "actor_initialization": study.sft.epochs,
        "runs": {
            name: len(collected.runs(name))
            for name in collected.methods("method")
            if study.method(name).kind == "rl"
        },
    }
    if study.models:
        weights = _weights(study.models.patient or study.models.actor)
        meaning["patient"] = [weights, study.sft.patient_epochs]
    if study.clinic:
        world = study.clinic
        settings["world"] = (
            f"{world.diseases} diseases with a sign each, noise {world.noise:g}; "
            f"{world.complaints} complaints, {world.complaint_odds:g} times likelier in half"
        )
    columns = (Column("item", "Item", numeric=False), Column("setting", "Setting", numeric=False))
    rows = []
    for key in (key for key in ITEMS if key in settings):
        setting = settings[key]
        if key in meaning:
            setting = Statement(setting, meaning[key])
        rows.append(Row(key, (ITEMS[key], setting)))
    title = f"Core configuration: {study.title}."
    return Table("configuration", title, "", columns, tuple(rows))


def _models(study: Study) -> dict[str, str]:
    if study.models:
        actor = _weights(study.models.actor)
        patient = f"Frozen {_weights(study.models.patient or study.models.actor)}"
        scorer = f"Frozen {_weights(study.models.scorer or study.models.actor)}"
    else:
        model = study.scratch_model
        actor = f"Qwen3 architecture, {model.layers} layers of width {model.width}, from scratch"
        patient, scorer = "Frozen, of the same base", "Frozen base, as before fine-tuning"
    return {
        "actor": actor,
        "actor_initialization": f"Shared SFT, {_epochs(study.sft.epochs)}",
        "patient": f"{patient}; SFT, {_epochs(study.sft.patient_epochs)}",
        "scorer": scorer,
    }


def _weights(model: Pretrained) -> str:
    """The weights' usual name: that of the file, or of the repository without its owner."""
    return model.gguf.removesuffix(".gguf") if model.gguf else Path(model.source).name


def _epochs(count: int) -> str:
    return f"{count} epoch{'' if count == 1 else 's'}"


def _sampling(collected: Collected) -> dict[str, str]:
    study = collected.study
    compared = {name: study.method(name) for name in collected.methods()}
    settings = {
        "max_turns": f"{study.protocol.max_turns}, including the final answer",
        "cases_per_update": str(study.rl.cases_per_update),
        "actor_decoding": f"{_decoding(study.actor_decoding)}; {ROLLOUTS}",
        "patient_decoding": _decoding(study.patient_decoding),
    }
    if grpo := compared.get("grpo"):
        settings["grpo_terminal_group"] = str(grpo.terminal_group)
    if pcqc := compared.get("pcqc"):
        settings["pcqc_terminal_group"] = str(pcqc.terminal_group)
        settings["pcqc_question_group"] = (
            f"{pcqc.question_group}; question states in the first consultation trajectory"
        )
        settings["pcqc_beta"] = f"{pcqc.beta:g}"
    if atpo := compared.get("atpo"):
        tree = atpo.tree
        settings["atpo_tree"] = (
            f"{tree.candidates} candidates at an expanded state, up to {tree.budget} consultations "
            "a case"
        )
    return settings


def _decoding(decoding: Decoding) -> str:
    return (
        f"temperature {decoding.temperature:g}, top-p {decoding.top_p:g}, "
        f"at most {decoding.max_tokens} tokens"
    )


def _training(collected: Collected) -> dict[str, str]:
    study = collected.study
    methods = {name: study.method(name) for name in trained(collected)}
    kl = {method.kl_coefficient for method in methods.values() if method.method != "atpo"}
    settings = {
        "runs": ", ".join(f"{method.title} {len(method.runs)}" for method in methods.values()),
        "updates": ", ".join(
            f"{method.title} {_updates(collected, name)}" for name, method in methods.items()
        ),
        "optimizer": (
            f"AdamW, learning rate {study.rl.learning_rate:g}, weight decay "
            f"{study.rl.weight_decay:g}, clip {study.rl.clip:g}, KL coefficient "
            f"{listed([f'{value:g}' for value in sorted(kl)])}"
        ),
    }
    if "atpo" in collected.methods():
        settings["atpo_optimizer"] = _tree_optimizer(study, study.method("atpo"))
    return settings


def _updates(collected: Collected, name: str) -> str:
    """`60`; where a run may end before, `up to 240 (made 90–150, 2 of 3 runs levelled off)`."""
    method = collected.study.method(name)
    if not collected.study.may_level_off(method):
        return str(method.updates)
    runs = collected.runs(name)
    made = [collected.record(name, run)["training"]["updates"] for run in runs]
    ends = "–".join(str(end) for end in sorted({min(made), max(made)}))
    levelled = sum(collected.levelled_off(name, run) for run in runs)
    return f"up to {method.updates} (made {ends}, {levelled} of {len(runs)} runs levelled off)"


def _tree_optimizer(study: Study, method: Method) -> str:
    tree = method.tree
    return (
        f"learning rate {tree.actor_learning_rate or study.rl.learning_rate:g} of the actor and "
        f"{tree.critic_learning_rate:g} of the critic, clip {study.rl.clip:g} below and "
        f"{tree.clip_high:g} above, KL coefficient {method.kl_coefficient:g}; else the same"
    )
