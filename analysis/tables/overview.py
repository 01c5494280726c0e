"""Every method and control on one screen: accuracy, questions, and the gain over Shared SFT."""

from analysis.budgets import START
from analysis.claims import compared
from analysis.collected import Collected
from analysis.notices import on_base_models
from analysis.table import MISSING, Cell, Column, Number, Range, Row, Table, mark_best, number
from analysis.tables.layout import random_parts
from analysis.tables.question_quality import ALL, first_questions
from pcqc.clinic.quality import EARLY

COLUMNS = (
    Column("method", "Method", numeric=False),
    Column("runs", "Runs"),
    Column("accuracy", "Right (%)"),
    Column("turns", "Questions"),
    Column("best", "Best questions (%)"),
    Column("gain", "Over Shared SFT"),
    Column("interval", "95% CI"),
)


def build(collected: Collected) -> Table:
    """One row per method, the most accurate first."""
    names, pooled = list(collected.benchmarks), collected.pooled()
    methods = sorted(pooled.methods(), key=lambda method: -pooled.average(method, names).mean)
    quality = first_questions(collected) if collected.study.clinic else None
    effects, rows = [], []
    for method in methods:
        gain: tuple[Cell, Cell] = (MISSING, MISSING)
        if method != START:
            effect = compared(collected, method, START, names, "accuracy").effect
            effects.append(effect)
            gain = (
                Number(effect.difference, signed=True, unit=" pp"),
                Range(effect.low, effect.high),
            )
        cells: tuple[Cell, ...] = (
            collected.title(method),
            str(len(pooled.runs(method))),
            number(pooled.average(method, names), 2),
            number(pooled.average(method, names, "turns"), 2),
            quality.cell(f"{method}:{ALL}", "best") if quality else MISSING,
            *gain,
        )
        rows.append(Row(method, cells, strong=method == "pcqc"))
    bases = on_base_models(1 + len(collected.others))
    caption = (
        f"Means over {len(names)} benchmarks ± one SD over runs{bases}, at the selected "
        "checkpoints. Questions: of a consultation. "
    )
    if quality:
        caption += (
            f"Best questions: share of the first {EARLY} questions on the development benchmark "
            "that no other question would have beaten. "
        )
    caption += f"95% intervals, each for itself: {random_parts(effects)}."
    title = f"All methods: {collected.study.title}."
    return Table("overview", title, caption, COLUMNS, tuple(mark_best(rows, 2)))
