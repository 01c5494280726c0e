"""fig:continuation_validation: gains of the highest-utility candidate, all and grounded ones."""

from matplotlib.figure import Figure

from analysis.collected import Collected
from analysis.continuation import filtered, main_policy
from analysis.drawing.style import WIDTH
from analysis.published import published
from analysis.table import Number, Range, Table
from analysis.tables import continuation

LOOK = {"all": ("#d55e00", "D", "All candidates"), "grounded": ("#0072b2", "o", "Grounded answers")}


def caption(collected: Collected) -> str:
    """What the figure shows, for the study."""
    policy = main_policy(collected)
    manifest = policy.manifest
    grounded = filtered(collected).grounded()["eligible_highest_utility_vs_uniform"]
    states = len(policy.case_ids)
    return (
        "How much more often a consultation ends in the right diagnosis if it continues from the "
        "candidate question with the highest utility, in percentage points; bars: paired 95% "
        f"intervals, a bootstrap over cases. {policy.title} continued each candidate "
        f"{manifest['continuations']} times; all candidates ({states:,} states) and those with "
        f"grounded answers ({grounded.cases if grounded else 0:,} states against uniform "
        "selection)."
    )


def draw(collected: Collected) -> Figure:
    """The study's gains."""
    states = len(main_policy(collected).case_ids)
    return gains(continuation.build(collected), continuation.grounded(collected), states)


def caption_paper() -> str:
    """What the companion shows."""
    return f"The same from the paper's tables. {published().tables['continuation'].caption}"


def draw_paper() -> Figure:
    """The published gains."""
    paper = published()
    every, grounded = (paper.tables[name] for name in ("continuation", "grounded_continuation"))
    return gains(every, grounded, paper.continuation_states)


def gains(every: Table, grounded: Table, states: int) -> Figure:
    """One line per comparison, its two candidate sets beneath each other.

    Args:
        every: the table `continuation`.
        grounded: the table `grounded_continuation`.
        states: those of all candidates.
    """
    figure = Figure(figsize=(WIDTH * 0.75, 2.2), layout="constrained")
    ax = figure.subplots()
    ax.axvline(0, color="#555555", linewidth=0.8, zorder=1)
    ax.margins(x=0.1)
    places = {"uniform": 1.0, "executed": 0.0}
    labelled = set()
    for rival, place in places.items():
        row = f"eligible_highest_utility_vs_{rival}"
        cases = int(grounded.cell(row, "cases").value)
        for y, among, table, key, count in (
            (place + 0.16, "all", every, rival, states),
            (place - 0.16, "grounded", grounded, row, cases),
        ):
            gain, interval = table.cell(key, "gain"), table.cell(key, "interval")
            if not isinstance(gain, Number) or not isinstance(interval, Range):
                continue  # no case has enough grounded answers
            colour, marker, label = LOOK[among]
            error = [[gain.value - interval.low], [interval.high - gain.value]]
            ax.errorbar(
                gain.value, y, xerr=error, fmt=marker, color=colour, markersize=6, capsize=3,
                label=None if among in labelled else label, zorder=3,
            )  # fmt: skip
            ax.annotate(
                f"{gain.value:+.2f}  ({count})".replace("-", "−"),
                (interval.high, y), (6, 0), textcoords="offset points", va="center", fontsize=7.5,
            )  # fmt: skip
            labelled.add(among)
    ax.set_yticks(list(places.values()), ["over uniform\nselection", "over executed\nquestion q₁"])
    ax.set_ylim(-0.5, 1.5)
    ax.grid(axis="y", visible=False)
    ax.set_xlabel("Gain in downstream success (pp; states in brackets)")
    if labelled:
        figure.legend(loc="outside lower center", ncols=2)
    return figure
