"""`docs/paper_consistency.md`: the checks' outcome in words. Run as a module to rewrite it."""

from pathlib import Path

from analysis.consistency.checks import Check
from analysis.consistency.relations import every
from analysis.published import Published, published
from pcqc.files import write_atomic

PATH = Path(__file__).parents[2] / "docs" / "paper_consistency.md"

_HEAD = """\
# Do the paper's numbers agree with each other?

Written by `python -m analysis.consistency.page` from `analysis/published.yaml`; a test fails when
it is out of date. A relation agrees if some values that round to the printed inputs give a value
that rounds to the printed result. Accuracies of single runs must also be whole numbers of cases,
and means and deviations over three runs must come from three whole numbers.
"""


def page(paper: Published) -> str:
    """The page's text."""
    checks = list(every(paper))
    wrong = [check for check in checks if not check.agrees]
    parts = [
        _HEAD,
        f"**{len(checks) - len(wrong)} of {len(checks)} relations agree.**\n",
        "## Disagreements\n",
        _rows(wrong) if wrong else "None.\n",
        "## What the numbers say beside the sentences\n",
        "".join(f"- {remark}\n" for remark in remarks(paper)),
        "## All relations\n",
        _rows(checks),
    ]
    return "\n".join(parts)


def remarks(paper: Published) -> list[str]:
    """What agrees arithmetically and a reader may still stumble over."""
    main = paper.by_benchmark("main_accuracy")
    opposite = [
        f"{paper.benchmarks[row.benchmark].title} ({paper.methods[row.subtrahend]}: "
        f"{row.gain:+.2f} paired, {_mean_gain(main, row):+.2f} in means)"
        for row in paper.paired
        if row.subtrahend in main and row.gain * _mean_gain(main, row) < 0
    ]
    crossing = [row for row in paper.paired if row.low <= 0 <= row.high]
    held_out = [r for r in paper.paired if paper.benchmarks[r.benchmark].role != "development"]
    rounded = [
        f"{row['selected']:.2f} − {row['comparator']:.2f} = "
        f"{row['selected'] - row['comparator']:.2f}, printed {row['gain']:+.2f}"
        for row in paper.tables["grounded_continuation"]["rows"]
        if f"{row['selected'] - row['comparator']:.2f}" != f"{row['gain']:.2f}"
    ]
    open_counts = [row for row in paper.paired if row.p == "1.0000"]
    return [
        "PCQC is above GRPO and ATPO on every benchmark in the means over three runs. The paired "
        f"comparisons of fixed checkpoints point the other way on {', '.join(opposite)}.",
        f"{len(crossing)} of the {len(paper.paired)} paired intervals include zero, among them all "
        f"{len(held_out)} on benchmarks other than MedQA, on which checkpoints were selected.",
        f"Grounded selection: {'; '.join(rounded)}. The paper says that these are rounded "
        "independently, and whole numbers of outcomes give the printed gain.",
        f"The p of {len(open_counts)} paired row, at equal accuracies, is 1 for any number of "
        "discordant cases; there the interval's width picks the number.",
    ]


def _mean_gain(main: dict, row) -> float:
    """PCQC's gain in the means over runs."""
    minuend, subtrahend = (main[method][row.benchmark] for method in (row.minuend, row.subtrahend))
    return minuend.mean - subtrahend.mean


def _rows(checks: list[Check]) -> str:
    lines = ["| Table | Relation | Printed | Recomputed | |", "| :-- | :-- | --: | --: | :-- |"]
    lines += [
        f"| {c.table} | {c.relation} | {c.printed} | {c.recomputed} | "
        f"{'agrees' if c.agrees else '**differs**'} |"
        for c in checks
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    write_atomic(PATH, page(published()))
