"""`docs/deviations.md` points to code that exists, and its numbers are the code's."""

import re
from types import SimpleNamespace

import pandas as pd
import pytest
import torch
from helpers import qwen3_chat

from analysis.table import Probability
from analysis.tables_and_figures import TABLES
from pcqc.jobs.rl_loop import policy_sampler
from pcqc.training.backend import adamw_backend
from pcqc.training.kl import LARGEST
from pcqc.training.mismatch import LARGEST as MOST
from pcqc_base.system.checkout import ROOT
from pcqc_gpu.planning.storage import checkpoints
from pcqc_study.study_file import load_study
from turn_credit.arithmetic import EPSILON, THRESHOLD

PAGE = ROOT / "docs" / "deviations.md"
CELLS = [
    [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
    for line in PAGE.read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and not line.startswith("| Subject")
]
HERE = {cells[0]: cells[2] for cells in CELLS}
COMMENTED = [ROOT / "config" / "studies" / "paper.yaml", ROOT / "config" / "methods.yaml"]
QWEN3 = qwen3_chat(joined=["assistant"])  # one token of Qwen's, too
PAPER, CLINIC, FULL = load_study("paper"), load_study("clinic"), load_study("clinic-full")
RL, TREE, METHODS = PAPER.rl, PAPER.method("atpo").tree, PAPER.methods


def only(values):
    """The value that all of some settings share."""
    (value,) = set(values)
    return value


def grpo_updates() -> list[float]:
    """Of GRPO, as long as PCQC too: what a run has."""
    grpo, pcqc = METHODS["grpo"], METHODS["pcqc"]
    counts = [checkpoints(PAPER, method) for method in (grpo, pcqc)]
    sizes = [grpo.updates, RL.cases_per_update, grpo.terminal_group]
    return [*sizes, *counts, pcqc.updates]


def decoding() -> list[float]:
    """Temperature and top-p in training, then in validation."""
    shared, actor = PAPER.actor_decoding, SimpleNamespace(engine=None)
    context = SimpleNamespace(actor=actor, chat=QWEN3)
    drawn = policy_sampler(shared, context, RL.rollout_top_p).sampling
    return [drawn.temperature, drawn.top_p, shared.temperature, shared.top_p]


def left_to_the_release() -> list[float]:
    """Settings of ATPO, in the page's order."""
    weights = [TREE.variance_weight, 1 - TREE.variance_weight]
    others = [TREE.newest_level_weight, TREE.critic_clip, 100 * TREE.actor_warmup, TREE.dual_clip]
    return [TREE.prune_probability, *weights, *others]


def reported() -> list[int]:
    """Updates of the tables that are not of selected checkpoints, in the page's order."""
    at = {name: only(updates) for name, updates in PAPER.also_evaluate.items()}
    together = only((at.pop("pcqc"), at.pop("same_state_q1")))
    return [together, *(at.pop(n) for n in ("grpo", "terminal_only", "executed_local")), *at]


def digits_of_p() -> list[int]:
    """Decimals of a p value, then significant digits of a small one."""
    plain, small = (Probability(p).text() for p in (0.1234567, 0.001234567))
    return [len(plain.partition(".")[2]), len(small.partition(".")[2].lstrip("0"))]


def rates() -> list[float]:
    """Of the methods of `clinic-full` and `clinic`, then of ATPO, in the page's order."""
    full, quick = (
        {name: study.rl_of(study.method(name)).learning_rate for name in study.methods}
        for study in (FULL, CLINIC)
    )
    fast = [only((full["grpo"], full["executed_local"]))]
    slow = [only((full["pcqc"], full["terminal_only"], full["same_state_q1"]))]
    groups = ("grpo", "pcqc", "terminal_only", "executed_local", "same_state_q1")
    return [*fast, *slow, full["atpo"], only(quick[name] for name in groups), quick["atpo"]]


def clinics_atpo() -> list[int]:
    """Budget, twice GRPO's group, and warm-up of either study."""
    quick, full = CLINIC.method("atpo").tree, FULL.method("atpo").tree
    assert quick.budget == 2 * CLINIC.method("grpo").terminal_group
    assert (quick.advantage, full.advantage) == ("backed_up", "return")
    return [only((quick.budget, full.budget)), full.critic_updates, quick.critic_updates]


def consultations(study) -> int:
    """Of a run, the same for all methods with groups."""
    return only(
        m.updates * study.rl.cases_per_update * m.terminal_group
        for m in study.methods.values()
        if hasattr(m, "terminal_group") and not m.on_demand
    )


def continuation() -> list[int]:
    """Sizes of the continuation studies of `clinic` and `clinic-full`."""
    sizes = [s.continuation for s in (CLINIC, FULL)]
    return [n for s in sizes for n in (s.states, s.candidates, s.continuations)]


CONTROLS = [m for m in METHODS.values() if m.role == "control"]
TRAINED = [m for m in CLINIC.methods.values() if m.kind == "rl" and not m.on_demand]
# Subject -> the numbers under "Here", in their order; a row that is not listed has none.
NUMBERS = {
    "KL estimator": lambda: [LARGEST],
    "Terminal-only": lambda: [METHODS["terminal_only"].updates],
    "GRPO's updates": grpo_updates,
    "ATPO's updates": lambda: [METHODS["atpo"].updates],
    "Runs of controls": lambda: [only(len(control.runs) for control in CONTROLS)],
    "Optimizer": lambda: [
        *adamw_backend(torch.nn.Linear(1, 1), 1e-6, RL).optimizers[0].defaults["betas"]
    ],
    "SFT schedule": lambda: [PAPER.sft.max_gradient_norm],
    "Checkpoints": lambda: [RL.checkpoint_every],
    "Checkpoints of the tables": reported,
    "Decoding in training": decoding,
    "Probabilities in the ratio": lambda: [LARGEST, RL.gap_alarm],
    "Engine and learner as two policies": lambda: [MOST, MOST],
    "Micro-batches and saved states": lambda: [RL.tokens_per_micro_batch, RL.save_every],
    "Engine": lambda: [PAPER.engine.cache_tokens],
    "Terminal advantage": lambda: [EPSILON, THRESHOLD],
    "Last turn": lambda: [PAPER.protocol.max_turns],
    "Response budget": lambda: [PAPER.actor_decoding.max_tokens],
    "Which states": lambda: [PAPER.continuation.states, PAPER.continuation.candidates],
    "Form of tables": digits_of_p,
    "Clinic's KL penalty": lambda: [only(method.kl_coefficient for method in TRAINED)],
    "Clinic's learning rates": rates,
    "Clinic's ATPO": clinics_atpo,
    "Clinic's GRPO": lambda: [CLINIC.method(m).terminal_group for m in ("grpo", "pcqc")],
    "Equal consultations": lambda: [consultations(study) for study in (CLINIC, FULL)],
    "Clinic's scorer": lambda: [100 * load_study("clinic-scratch").scratch_model.most_scorer_gap],
    "Clinic's continuation": continuation,
    "Clinic's SFT": lambda: [CLINIC.sft.epochs, CLINIC.clinic.sft_conversations],
    "Options in training": lambda: [f(CLINIC.clinic.training_options) for f in (min, max)],
    "Clinic's limits": lambda: [
        *(getattr(CLINIC.protocol, f"{name}_tokens") for name in ("prompt", "response", "action"))
    ],
    "Left to ATPO's release": left_to_the_release,
    "Where V is read": lambda: [QWEN3.ending, 1],
    "Critic warm-up": lambda: [1, TREE.critic_updates],
    "Mini-batches": lambda: [TREE.trajectories_per_step],
    "Reward at the token limit": lambda: [TREE.reward_none],
}


def numbers(text: str) -> list[float]:
    """The numbers of a cell, without those of code, links, and the paper's tables and figures."""
    text = re.sub(r"`[^`]*`|\]\([^)]*\)|(?:Table|Figure)s? \d+(?:(?:,| to| and) \d+)*", " ", text)
    texts = re.findall(r"(?<!\w)[−±]?\d[\d,]*(?:\.\d+)?(?:e-\d+)?", text)
    return [float(n.rstrip(",").replace(",", "").replace("−", "-").lstrip("±")) for n in texts]


def test_comments_of_the_settings_and_rows_of_the_page_are_in_step():
    """A comment names its rows; a choice of a setting on which the paper is silent has one."""
    named, marks = set(), 0
    for file in COMMENTED:
        text = re.sub(r"\n\s*# *", " ", file.read_text(encoding="utf-8"))
        marks += len(re.findall(r"Not in the paper(?!\",)", text))
        for subjects in re.findall(r"Not in the paper \(([^)]+)\)", text):
            named |= {" ".join(subject.split()) for subject in subjects.split(";")}
            marks -= 1
    assert marks == 0, "a comment says 'Not in the paper' and names no row"
    assert named <= HERE.keys()
    settings = (
        *("`config/methods.yaml`", "`config/studies/paper.yaml`", "`src/pcqc_base/settings/"),
        "`src/pcqc/methods/atpo/settings.py`",
    )
    silent = {c[0] for c in CELLS if "silent" in c[1] and c[4].startswith(settings)}
    assert len(silent) >= 15
    assert silent <= named


@pytest.mark.parametrize("cells", CELLS, ids=lambda cells: cells[0])
def test_a_declared_choice_names_a_file_and_a_word_in_it(cells):
    assert len(cells) == 5
    assert all(cells)
    places = re.findall(r"`([^`]+)`", cells[-1])
    path, words = ROOT / places[0], places[1:]
    files = [path] if path.is_file() else sorted(path.rglob("*.py"))
    assert files, f"{path} is not there"
    text = "".join(file.read_text(encoding="utf-8") for file in files)
    assert all(word in text for word in words)


@pytest.mark.parametrize("subject", HERE)
def test_the_numbers_of_a_choice_are_the_codes(subject):
    of_code = NUMBERS[subject]() if subject in NUMBERS else []
    assert numbers(HERE[subject]) == pytest.approx(of_code)


def test_the_blunter_scorer_is_as_it_was_archived():
    """Its row quotes the cell of the map, to a tenth of a point."""
    cells = pd.read_csv(ROOT / "results" / "archive" / "cells.csv").set_index("cell")
    row = cells.loc["cell-blunter-scorer", ["grpo", "grpo_low", "grpo_high"]]
    why = next(c[3] for c in CELLS if c[0] == "Clinic's scorer")
    assert numbers(why) == pytest.approx([*row], abs=0.06)


def test_every_number_of_the_code_has_a_row():
    assert NUMBERS.keys() <= HERE.keys()


def test_the_tables_of_reported_checkpoints_are_those_that_the_page_names():
    named = set(re.findall(r"`(\w+)`", HERE["Checkpoints of the tables"]))
    modules = {name: (item.made_by or name).split(".")[0] for name, item in TABLES.items()}
    folder = ROOT / "analysis" / "tables"
    texts = {name: (folder / f"{module}.py").read_text() for name, module in modules.items()}
    assert named == {name for name, text in texts.items() if "at_fixed_update(" in text}
