"""How much of each method's gain is better questions and how much better diagnosis."""

from dataclasses import replace

import numpy as np

from analysis.bayes_doctor import BayesDoctor, Consultations, bayes_doctor_of
from analysis.collected import Collected
from analysis.statistics.intervals import Effect, crossed_effect
from analysis.table import MISSING, Cell, Column, Range, Row, Table, mean_of_runs, number
from analysis.tables.layout import development_cases, random_parts
from pcqc_study.study_file import START

COLUMNS = (
    Column("method", "Method", numeric=False),
    Column("accuracy", "Acc. (%)"),
    Column("turns", "Q/ep."),
    Column("gain", "Total", "Gain over Shared SFT (pp)"),
    Column("interval", "95% CI", "Gain over Shared SFT (pp)"),
    Column("questions", "By questions", "Gain over Shared SFT (pp)"),
    Column("diagnosis", "By diagnosis", "Gain over Shared SFT (pp)"),
    Column("bayes", "On its evidence", "Bayes diagnosis (%)"),
    Column("random", "Random questions", "Bayes diagnosis (%)"),
    Column("best", "Best questions", "Bayes diagnosis (%)"),
)


def build(collected: Collected) -> Table:
    """Every method and control on the development benchmark; means over runs with sample SDs."""
    bayes = bayes_doctor_of(collected)
    reference = bayes.runs(START)
    methods = collected.methods()
    here, development = replace(collected, others=()), [collected.study.development]
    effects = {
        method: crossed_effect(*(here.sample(name, development) for name in (method, START)))
        for method in methods
        if method != START
    }
    rows = [_row(bayes, method, reference, effects.get(method)) for method in methods]
    caption = (
        f"On {development_cases(collected)}; cells are mean ± SD over runs. Acc.: percent of right "
        "diagnoses. Q/ep.: turns before the diagnosis. Bayes diagnosis, on its evidence: accuracy "
        "of a Bayes-optimal diagnosis on the answers that the method's questions brought. The "
        "gain over Shared SFT is split into the change of that accuracy (by questions) and the "
        "rest (by diagnosis). Random questions, best questions: the same accuracy, had the method "
        "asked as many random or best questions on average. Such consultations end once one option "
        f"is left; with best questions that is after {bayes.best.asked[-1]:.1f} on average. "
        f"95% intervals {random_parts(effects.values())}."
    )
    return Table(
        "questions_or_diagnosis",
        "Better questions or better diagnosis?",
        caption,
        COLUMNS,
        tuple(rows),
    )


def _row(
    bayes: BayesDoctor, method: str, reference: list[Consultations], effect: Effect | None
) -> Row:
    collected, runs = bayes.collected, bayes.runs(method)
    accuracy, evidence = (
        np.array([getattr(run, name).mean() for run in runs]) for name in ("accuracy", "bayes")
    )
    gain = accuracy - np.mean([run.accuracy.mean() for run in reference])
    questions = evidence - np.mean([run.bayes.mean() for run in reference])
    turns = collected.average(method, [collected.study.development], "turns")
    cells: list[Cell] = [mean_of_runs(accuracy, 2), number(turns, 3)]
    if effect is None:
        cells += [MISSING] * 4
    else:
        parts = (gain, questions, gain - questions)
        total, *split = (mean_of_runs(part, 2, signed=True) for part in parts)
        cells += [total, Range(effect.low, effect.high), *split]
    asked = [run.questions.mean() for run in runs]
    exact = ([doctor.after(n) for n in asked] for doctor in (bayes.random, bayes.best))
    cells += [mean_of_runs(values, 2) for values in (evidence, *exact)]
    first_control = method == next(iter(collected.methods("control")), None)
    return Row(
        method,
        (collected.title(method), *cells),
        rule=method == "pcqc" or first_control,
        strong=method == "pcqc",
    )
