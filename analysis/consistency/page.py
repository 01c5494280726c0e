"""`docs/paper_consistency.md`: the outcome in words. Run as a module to rewrite it."""

from collections import Counter
from pathlib import Path

from analysis.consistency.relations import every, title
from analysis.published import Published, published
from analysis.table import listed
from pcqc.system.files import write_atomic

PATH = Path(__file__).parents[2] / "docs" / "paper_consistency.md"


def page(paper: Published) -> str:
    """The text of `docs/paper_consistency.md`."""
    checks = every(paper)
    wrong = [f"- {check.table}: {check.relation}\n" for check in checks if not check.agrees]
    counted = Counter(check.table for check in checks)
    rows = "".join(f"| {table} | {number} |\n" for table, number in counted.items())
    return (
        "# Do the paper's numbers agree with each other?\n\n"
        "Written by `python -m analysis.consistency.page` from `analysis/published.yaml`; a test "
        "fails when it is\nout of date. A relation agrees if some values that round to the printed "
        "inputs give one that rounds\nto the printed result. Accuracies of single runs must be "
        "whole numbers of cases, and means and\ndeviations over three runs must come from three "
        "whole numbers. Each relation can fail: a test changes\nthe numbers and asks it to.\n\n"
        f"**{len(checks) - len(wrong)} of {len(checks)} relations agree.** "
        f"Disagreements:{' none.' if not wrong else ''}\n\n{''.join(wrong)}"
        f"| Table | Relations |\n| :-- | --: |\n{rows}\n"
        "## What the numbers say beside the sentences\n\n"
        + "".join(f"- {remark}\n" for remark in remarks(paper))
    )


def remarks(paper: Published) -> list[str]:
    """What agrees arithmetically and a reader may still stumble over."""
    main = paper.by_benchmark("main_accuracy")
    gains = {
        (rival, name): main["pcqc"][name].mean - main[rival][name].mean
        for rival in ("grpo", "atpo")
        for name in paper.benchmarks
    }
    above = sum(gain > 0 for gain in gains.values())
    opposite = [
        f"{title(paper, row)} ({row.gain:+.2f} paired, "
        f"{gains[row.subtrahend, row.benchmark]:+.2f} in means)"
        for row in paper.paired
        if row.gain * gains.get((row.subtrahend, row.benchmark), 0) < 0
    ]
    other = "none" if not opposite else listed(opposite)
    crossing = [row for row in paper.paired if row.low <= 0 <= row.high]
    held_out = [row for row in crossing if row.benchmark != paper.development]
    rounded = [
        f"{row['selected']:.2f} − {row['comparator']:.2f} is printed {row['gain']:+.2f}"
        for row in paper.tables["grounded_continuation"]["rows"]
        if f"{row['selected'] - row['comparator']:.2f}" != f"{row['gain']:.2f}"
    ]
    return [
        f"In the means over runs PCQC is above GRPO or ATPO in {above} of {len(gains)} "
        f"comparisons. Paired comparisons of fixed checkpoints that point the other way: {other}.",
        f"{len(crossing)} of the {len(paper.paired)} paired intervals include zero, "
        f"{len(held_out)} of them on benchmarks on which no checkpoint was selected.",
        f"Grounded selection: {listed(rounded)}; the paper rounds these numbers one by one, and "
        "whole numbers of outcomes give the printed gain.",
    ]


if __name__ == "__main__":
    write_atomic(PATH, page(published()))
