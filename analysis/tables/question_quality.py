"""What each method's questions are worth, turn by turn, and what the patient makes of them."""

import numpy as np

from analysis.collected import Collected
from analysis.instrument import Instrument
from analysis.statistics.estimates import over_runs
from analysis.table import MISSING, Cell, Column, Row, Table, number
from pcqc.cases.case import Case
from pcqc.clinic.quality import AskedQuestion, summary

NAME = "question_quality"
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
DISTINCT = "credit/distinct_questions_turn_"  # and the number of the turn
Consultation = tuple[Case, list[AskedQuestion]]


def build(collected: Collected) -> Table:
    """Every method and control on the development benchmark; one row for each turn that it asks."""
    development = collected.study.development
    instrument = Instrument(collected, development)
    rows = [row for method in collected.methods() for row in _rows(collected, instrument, method)]
    caption = (
        f"{collected.benchmarks[development].title}, {collected.number_of_cases(development):,} "
        "cases; means over runs ± sample standard deviations. Ask: consultations with a question "
        "at this turn to which the patient replied. Best: no other question would raise the "
        "accuracy of a Bayes diagnosis more, were it the last; by chance: the share of best ones "
        "among findings not yet known. Regret: what a best question would have brought more; by "
        "Q*, if best questions followed as long as the turns last. "
        "Unanswerable: the facts do not say. Patient errs: the answer differs from the facts. "
        "Distinct candidates: different questions at a state among those that credit compared, "
        "mean over the training. Bayes diagnosis so far, all consultations: on the evidence up to "
        "this turn, and had random, never repeated, or best questions been asked of the same facts "
        "up to it, until one option is left."
    )
    return Table(NAME, "How good the questions are, by turn.", caption, COLUMNS, tuple(rows))


def _rows(collected: Collected, instrument: Instrument, method: str) -> list[Row]:
    runs = [instrument.questions(method, run) for run in collected.runs(method)]
    turns = range(1, 1 + max((len(asked) for run in runs for _, asked in run), default=0))
    candidates = _candidates(collected, method)
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
        first = turn == 1
        label = collected.title(method) if first else ""
        rows.append(Row(f"{method}:{turn}", (label, str(turn), *cells), first, method == "pcqc"))
    return rows


def _of_turn(instrument: Instrument, run: list[Consultation], turn: int) -> dict[str, float]:
    """Column -> mean over one run's consultations, or over the questions of a turn."""
    asked = [questions[turn - 1] for _, questions in run if len(questions) >= turn]
    found = {
        name: value if name in ("regret", "loss") else 100 * value
        for name, value in summary(asked).items()
    }
    found["asked"] = 100 * len(asked) / len(run)
    so_far = [
        questions[min(turn, len(questions)) - 1].diagnosis
        if questions
        else instrument.diagnosis(case, {"turns": []})
        for case, questions in run
    ]
    found["bayes"] = 100 * float(np.mean(so_far))
    return found


def _candidates(collected: Collected, method: str) -> dict[int, np.ndarray]:
    """Turn -> (runs,) distinct candidate questions of a state, mean over the training's updates."""
    rows = collected.updates
    if rows.empty:
        return {}
    rows = rows[(rows["method"] == method) & (rows["kind"] == "update")]
    means = rows.groupby("run")[[c for c in rows if c.startswith(DISTINCT)]].mean()
    return {
        int(name.removeprefix(DISTINCT)): means[name].dropna().to_numpy() for name in means.columns
    }
