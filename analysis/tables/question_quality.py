"""What each method's questions are worth: turn by turn, and the first ones over all runs."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from analysis.bayes_doctor import BayesDoctor, bayes_doctor_of
from analysis.collected import Collected
from analysis.notices import in_words, on_base_models
from analysis.statistics.intervals import Effect, effect_over_runs
from analysis.table import Cell, Column, Row, Table, difference, mean_of_runs
from analysis.tables.layout import development_cases
from pcqc.cases.case import Case
from pcqc_clinic.quality import EARLY, AskedQuestion, summary

COLUMNS = (
    Column("method", "Method", numeric=False),
    Column("turn", "Turn", numeric=False),
    Column("asked", "Ask (%)"),
    Column("best", "Best (%)", "Questions of this turn"),
    Column("chance", "By chance (%)", "Questions of this turn"),
    Column("regret", "Regret (pp)", "Questions of this turn"),
    Column("loss", "Regret, Q* (pp)", "Questions of this turn"),
    Column("repeated", "Repeated (%)", "Questions of this turn"),
    Column("unanswerable", "Unanswerable (%)", "Questions of this turn"),
    Column("misquoted", "Patient errs (%)", "Questions of this turn"),
    Column("candidates", "Distinct candidates", "Questions of this turn"),
    Column("bayes", "On its evidence", "Bayes diagnosis so far (%)"),
    Column("random_doctor", "Random questions", "Bayes diagnosis so far (%)"),
    Column("best_doctor", "Best questions", "Bayes diagnosis so far (%)"),
)
FIRST_COLUMNS = (
    Column("method", "Method", numeric=False),
    Column("turn", "Turn", numeric=False),
    Column("best", "Best (%)"),
    Column("chance", "By chance (%)"),
    Column("above", "Above chance (pp)"),
    Column("repeated", "Repeated (%)"),
)
CREDITED = ("pcqc", "executed_local", "same_state_q1")  # have credit on questions
UNCREDITED = ("grpo", "terminal_only")
DISTINCT = "credit/distinct_questions_turn_"  # and the number of the turn
ALL = f"1–{EARLY}"  # label of all early questions of a method
BEST = (
    "Best: percent after which a Bayes-optimal diagnosis would be at least as accurate as after "
    "any other question."
)


def build(collected: Collected) -> Table:
    """Every method and control on the development benchmark; one row for each turn that it asks."""
    bayes = bayes_doctor_of(collected)
    rows = [row for method in collected.methods() for row in _rows(bayes, method)]
    caption = (
        f"On {development_cases(collected)}; cells are mean ± SD over runs. Ask: percent of "
        "consultations with a question at this turn that the patient answered. The next columns "
        f"are about these questions. {BEST} By chance: percent of best ones among the questions "
        "not yet asked. Regret: points of Bayes accuracy that a best question would have added "
        "beyond this one; with Q*, if best questions followed as long as the turns last."
    )
    notes = (
        "Unanswerable: the patient's facts do not say. Patient errs: the answer differs from the "
        "facts. Distinct candidates: how many of the questions that credit compared at a state "
        "differ, mean over the training.",
        "Bayes diagnosis so far: accuracy of a Bayes-optimal diagnosis after this turn, in all "
        "consultations: on the answers so far, and had random questions without repeats, or best "
        "ones, been asked instead until one option is left.",
    )
    title = "How good the questions are, by turn."
    return Table("question_quality", title, caption, COLUMNS, tuple(rows), notes)


@lru_cache
def by_base(collected: Collected) -> Table:
    """Every method on all base models: each early turn, and all early turns together."""
    bases = collected.on_each_base
    columns = FIRST_COLUMNS
    if len(bases) > 1:
        numbers = range(1, len(bases) + 1)
        above = (Column(f"above_{n}", f"Base model {n}", "Above chance (pp)") for n in numbers)
        columns = (*columns, *above)
    rows = []
    for method in collected.methods():
        for label, shares in _first_shares(collected, method).items():
            pooled = [run for runs in shares for run in runs]
            cells = [_mean(pooled, column.key) for column in FIRST_COLUMNS[2:]]
            if len(bases) > 1:
                cells += [_mean(runs, "above") for runs in shares]
            first = label == "1"
            title = collected.title(method) if first else ""
            key = f"{method}:{label}"
            rows.append(Row(key, (title, label, *cells), first, method == "pcqc"))
    caption = (
        f"The first {in_words(EARLY)} answered questions of each consultation, on "
        f"{development_cases(collected)}; cells are mean ± SD over all runs"
        f"{on_base_models(len(bases))}. {BEST} By chance: percent of best ones among the questions "
        "not yet asked. Above chance: the difference of the two, in percentage points. A method's "
        "last row is about these questions together."
    )
    parts = [
        " ".join([label, *(cell.text() for cell in difference(effect, digits=1))])
        for label, effect in effects_of_credit(collected).items()
    ]
    compared = "Differences in best ones of all these questions, in percentage points"
    intervals = "with 95% intervals, each of itself alone, that take runs as random"
    notes = (f"{compared}, {intervals}: {'; '.join(parts)}.",) if parts else ()
    title = "How good the first questions are."
    return Table("question_quality_by_base", title, caption, columns, tuple(rows), notes)


def effects_of_credit(collected: Collected) -> dict[str, Effect]:
    """Label -> points more best first questions, with question credit than without."""
    methods, effects = collected.methods(), {}
    for method in (name for name in CREDITED if name in methods):
        for rival in (name for name in UNCREDITED if name in methods):
            best = [
                [[run["best"] for run in runs if run] for runs in _first_shares(collected, m)[ALL]]
                for m in (method, rival)
            ]
            if effect := effect_over_runs(*best, reach=100):
                effects[f"{collected.title(method)} − {collected.title(rival)}"] = effect
    return effects


@lru_cache
def _first_shares(collected: Collected, method: str) -> dict[str, list[list[dict[str, float]]]]:
    """Turn, or all early ones -> [base models][runs] column -> percent; empty without any."""
    bases = map(bayes_doctor_of, collected.on_each_base)
    asked = [[base.early(method, run) for run in base.collected.runs(method)] for base in bases]
    turns = range(1, EARLY + 1)
    labelled = {str(turn): (turn,) for turn in turns} | {ALL: turns}
    return {
        label: [[_percent([q for q in run if q.turn in among]) for run in runs] for runs in asked]
        for label, among in labelled.items()
    }


def _rows(bayes: BayesDoctor, method: str) -> list[Row]:
    """A method's rows of the table by turn."""
    collected = bayes.collected
    runs = [bayes.questions(method, run) for run in collected.runs(method)]
    turns = range(1, 1 + max((len(asked) for run in runs for _, asked in run), default=0))
    candidates = _distinct_candidates(collected, method)
    doctors = {"random_doctor": bayes.random, "best_doctor": bayes.best}
    rows = []
    for turn in turns:
        parts = [_of_turn(bayes, run, turn) for run in runs]
        cells: list[Cell] = []
        for column in COLUMNS[2:]:
            if column.key == "candidates":
                values = list(candidates.get(turn, []))
            elif column.key in doctors:
                values = [doctors[column.key].accuracy[turn]]
            else:
                values = [part[column.key] for part in parts if column.key in part]
            cells.append(mean_of_runs(values, 1))
        label = collected.title(method) if turn == 1 else ""
        key = f"{method}:{turn}"
        rows.append(Row(key, (label, str(turn), *cells), turn == 1, method == "pcqc"))
    return rows


def _of_turn(
    bayes: BayesDoctor, run: list[tuple[Case, list[AskedQuestion]]], turn: int
) -> dict[str, float]:
    """Column -> mean over one run's consultations, or over the questions of a turn."""
    asked = [questions[turn - 1] for _, questions in run if len(questions) >= turn]
    means = _percent(asked) | {"asked": 100 * len(asked) / len(run)}
    so_far = [
        questions[min(turn, len(questions)) - 1].diagnosis
        if questions
        else bayes.diagnosis(case, {"turns": []})
        for case, questions in run
    ]
    means["bayes"] = 100 * float(np.mean(so_far))
    return means


def _distinct_candidates(collected: Collected, method: str) -> dict[int, np.ndarray]:
    """Turn -> (runs,) distinct candidate questions of a state, mean over the training's updates."""
    rows = collected.updates
    if rows.empty:
        return {}
    rows = rows[(rows["method"] == method) & (rows["kind"] == "update")]
    means = rows.groupby("run")[[c for c in rows if c.startswith(DISTINCT)]].mean()
    return {
        int(name.removeprefix(DISTINCT)): means[name].dropna().to_numpy() for name in means.columns
    }


def _percent(asked: Sequence[AskedQuestion]) -> dict[str, float]:
    """Column -> mean over some questions, in percent or in points; empty without any."""
    means = {
        name: value if name in ("regret", "loss") else 100 * value
        for name, value in summary(asked).items()
    }
    return {**means, "above": means["best"] - means["chance"]} if means else {}


def _mean(runs: Sequence[dict[str, float]], key: str) -> Cell:
    return mean_of_runs([run.get(key) for run in runs], 1, signed=key == "above")
