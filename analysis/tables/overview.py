"""Every method and control on one screen: accuracy, questions, the gain over Shared SFT; bases."""

from analysis.claims import compared
from analysis.collected import Collected
from analysis.metrics import METRICS
from analysis.notices import in_words, on_base_models
from analysis.table import MISSING, Cell, Column, Row, Table, difference, mark_best, number
from analysis.tables.layout import checkpoints_sentence, mean_cell, random_parts, sizes
from analysis.tables.question_quality import ALL
from analysis.tables.question_quality import by_base as question_quality
from pcqc_clinic.quality import EARLY
from pcqc_study.study_file import START

DIGITS = 2


def build(collected: Collected) -> Table:
    """One row per method, the most accurate first."""
    names, pooled = list(collected.benchmarks), collected.pooled()
    methods = _ranked(pooled)
    quality = question_quality(collected) if collected.study.clinic else None
    shown = {name: metric for name, metric in METRICS.items() if metric.overview}
    effects, rows = [], []
    for method in methods:
        gain: tuple[Cell, Cell] = (MISSING, MISSING)
        if method != START:
            effect = compared(collected, method, START, names, "accuracy").effect
            effects.append(effect)
            gain = difference(effect, unit=" pp")
        cells: tuple[Cell, ...] = (
            collected.title(method),
            str(len(pooled.runs(method))),
            *(number(pooled.average(method, names, metric), DIGITS) for metric in shown),
            quality.cell(f"{method}:{ALL}", "best") if quality else MISSING,
            *gain,
        )
        rows.append(Row(method, cells, strong=method == "pcqc"))
    bases = on_base_models(1 + len(collected.others))
    meanings = [f"{m.title.removesuffix(' (%)')}: {m.about}." for m in shown.values()]
    caption = (
        f"{' '.join(meanings)} {'Both' if len(shown) == 2 else 'All'} are means over "
        f"{in_words(len(names))} benchmarks, then mean ± SD over runs{bases}. "
        f"{checkpoints_sentence(collected, ())} "
    )
    if quality:
        caption += (
            f"Best questions: percent of the first {in_words(EARLY)} questions of a consultation "
            "on the development benchmark after which a Bayes diagnosis would be at least as "
            "accurate as after any other question. "
        )
    caption += (
        "Over Shared SFT: difference in right diagnoses, with a 95% interval of this row alone. "
        f"Intervals {random_parts(effects)}. Bold: the highest share of right diagnoses."
    )
    title = f"All methods: {collected.study.title}."
    columns = (
        Column("method", "Method", numeric=False),
        Column("runs", "Runs"),
        *(Column(name, metric.title) for name, metric in shown.items()),
        Column("best", "Best questions (%)"),
        Column("gain", "Over Shared SFT"),
        Column("interval", "95% CI"),
    )
    return Table("overview", title, caption, columns, tuple(mark_best(rows, 2)))


def by_base(collected: Collected) -> Table:
    """Accuracy by method, base model and benchmark, with the mean of questions."""
    names = list(collected.benchmarks)
    rows = [
        Row(
            f"{method}:{number}",
            (
                collected.title(method) if number == 1 else "",
                str(number),
                *(mean_cell(base, method, [name]) for name in names),
                mean_cell(base, method, names),
                mean_cell(base, method, names, "turns"),
            ),
            rule=number == 1,
            strong=method == "pcqc",
        )
        for method in _ranked(collected.pooled())
        for number, base in enumerate(collected.on_each_base, 1)
    ]
    caption = (
        f"Percent of right diagnoses on {sizes(collected, names)}; mean ± SD over the runs on one "
        f"base model. Avg., and Q/ep. (questions of a consultation): means over the benchmarks. "
        f"{checkpoints_sentence(collected, ())}"
    )
    columns = (
        Column("method", "Method", numeric=False),
        Column("base", "Base model"),
        *(Column(name, collected.benchmarks[name].title) for name in names),
        Column("average", "Avg."),
        Column("turns", "Q/ep."),
    )
    title = f"All methods by base model and benchmark: {collected.study.title}."
    return Table("overview_by_base", title, caption, columns, tuple(rows))


def _ranked(pooled: Collected) -> list[str]:
    """Methods and controls, the most accurate first."""
    names = list(pooled.benchmarks)
    return sorted(pooled.methods(), key=lambda method: -pooled.average(method, names).mean)
