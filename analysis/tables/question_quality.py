"""What each method's questions are worth: turn by turn, and the first ones over all runs."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.collected import Collected
from analysis.instrument import Instrument, instrument_of, instruments
from analysis.notices import in_words, on_base_models
from analysis.statistics.estimates import effect_over_runs, over_runs
from analysis.statistics.intervals_over_runs_and_cases import Effect
from analysis.table import MISSING, Cell, Column, Number, Range, Row, Table, mean_of_runs, number
from analysis.tables.layout import development_cases
from pcqc.cases.case import Case
from pcqc.clinic.quality import EARLY, AskedQuestion, summary

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
    instrument = instrument_of(collected)
    rows = [row for method in collected.methods() for row in _rows(instrument, method)]
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


@dataclass(frozen=True)
class FirstQuestions:
    """The table of early questions, and differences in best ones: label -> effect, in points."""

    table: Table
    effects: dict[str, Effect]


def first_questions(collected: Collected) -> Table:
    """Every method on all base models: each early turn, and all early turns together."""
    return compare_first_questions(collected).table


def compare_first_questions(collected: Collected) -> FirstQuestions:
    """The table of `first_questions`, and which methods ask better."""
    return collected.once("first questions", lambda: _compare_first_questions(collected))


def _compare_first_questions(collected: Collected) -> FirstQuestions:
    bases = instruments(collected)
    columns = FIRST_COLUMNS
    if len(bases) > 1:
        numbers = range(1, len(bases) + 1)
        above = (Column(f"above_{n}", f"Base model {n}", "Above chance (pp)") for n in numbers)
        columns = (*columns, *above)
    rows, shares_of = [], {}
    for method in collected.methods():
        by_base = _early_questions(bases, method)
        turns = range(1, EARLY + 1)
        labelled = {str(turn): (turn,) for turn in turns} | {ALL: turns}
        for label, among in labelled.items():
            shares = [[_shares(run, among) for run in runs] for runs in by_base]
            if label == ALL:
                shares_of[method] = [[run["best"] for run in runs if run] for runs in shares]
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
    effects = _effects(collected, shares_of)
    parts = [
        f"{label} {Number(effect.difference, digits=1, signed=True).text()} "
        f"{Range(effect.low, effect.high, digits=1).text()}"
        for label, effect in effects.items()
    ]
    compared = "Differences in best ones of all these questions, in percentage points"
    intervals = "with 95% intervals, each of itself alone, that take runs as random"
    notes = (f"{compared}, {intervals}: {'; '.join(parts)}.",) if parts else ()
    title = "How good the first questions are."
    table = Table("question_quality_by_base", title, caption, columns, tuple(rows), notes)
    return FirstQuestions(table, effects)


def _effects(collected: Collected, shares: dict[str, list[list[float]]]) -> dict[str, Effect]:
    """Label -> difference in best questions of a method with question credit and one without.

    Args:
        shares: method -> [base models][runs] percent.
    """
    effects = {}
    for method in CREDITED:
        for rival in UNCREDITED:
            runs = [shares.get(name, []) for name in (method, rival)]
            if all(runs) and (effect := effect_over_runs(*runs)):
                effects[f"{collected.title(method)} − {collected.title(rival)}"] = effect
    return effects


def _rows(instrument: Instrument, method: str) -> list[Row]:
    """A method's rows of the table by turn."""
    collected = instrument.collected
    runs = [instrument.questions(method, run) for run in collected.runs(method)]
    turns = range(1, 1 + max((len(asked) for run in runs for _, asked in run), default=0))
    candidates = _distinct_candidates(collected, method)
    doctors = {"random_doctor": instrument.random, "best_doctor": instrument.best}
    rows = []
    for turn in turns:
        parts = [_of_turn(instrument, run, turn) for run in runs]
        cells: list[Cell] = []
        for column in COLUMNS[2:]:
            if column.key == "candidates":
                values = list(candidates.get(turn, []))
            elif column.key in doctors:
                values = [doctors[column.key].accuracy[turn]]
            else:
                values = [part[column.key] for part in parts if column.key in part]
            cells.append(number(over_runs(values), 1) if values else MISSING)
        label = collected.title(method) if turn == 1 else ""
        key = f"{method}:{turn}"
        rows.append(Row(key, (label, str(turn), *cells), turn == 1, method == "pcqc"))
    return rows


def _of_turn(
    instrument: Instrument, run: list[tuple[Case, list[AskedQuestion]]], turn: int
) -> dict[str, float]:
    """Column -> mean over one run's consultations, or over the questions of a turn."""
    asked = [questions[turn - 1] for _, questions in run if len(questions) >= turn]
    means = {
        name: value if name in ("regret", "loss") else 100 * value
        for name, value in summary(asked).items()
    }
    means["asked"] = 100 * len(asked) / len(run)
    so_far = [
        questions[min(turn, len(questions)) - 1].diagnosis
        if questions
        else instrument.diagnosis(case, {"turns": []})
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


def _early_questions(bases: Sequence[Instrument], method: str) -> list[list[list[AskedQuestion]]]:
    """[base models][runs] the early questions of a method."""
    return [[base.early(method, run) for run in base.collected.runs(method)] for base in bases]


def _shares(questions: Sequence[AskedQuestion], turns: Collection[int]) -> dict[str, float]:
    """Column -> percent, or points, of one run's questions at some turns; empty without any."""
    means = summary([question for question in questions if question.turn in turns])
    if not means:
        return {}
    shares = {name: 100 * means[name] for name in ("best", "chance", "repeated")}
    return {**shares, "above": shares["best"] - shares["chance"]}


def _mean(runs: Sequence[dict[str, float]], key: str) -> Cell:
    return mean_of_runs([run.get(key) for run in runs], 1, signed=key == "above")
