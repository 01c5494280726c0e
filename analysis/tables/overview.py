"""Every method and control on one screen: accuracy, questions, and the gain over Shared SFT."""

from analysis.claims import compared
from analysis.collected import Collected
from analysis.metrics import METRICS
from analysis.notices import in_words, on_base_models
from analysis.table import MISSING, Cell, Column, Row, Table, difference, mark_best, number
from analysis.tables.layout import checkpoints_sentence, random_parts
from analysis.tables.question_quality import ALL, by_base
from pcqc_clinic.quality import EARLY
from pcqc_study.settings import START

DIGITS = 2


def build(collected: Collected) -> Table:
    """One row per method, the most accurate first."""
    names, pooled = list(collected.benchmarks), collected.pooled()
    methods = sorted(pooled.methods(), key=lambda method: -pooled.average(method, names).mean)
    quality = by_base(collected) if collected.study.clinic else None
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
