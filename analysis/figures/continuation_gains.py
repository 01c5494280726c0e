"""fig:continuation_validation: gains of the highest-utility candidate, all and grounded ones."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.collected import Collected
from analysis.continuation import filtered, main_policy
from analysis.drawing.style import WIDTH
from analysis.notices import on_base_models
from analysis.published import published
from analysis.table import Number, Range, Table, listed
from analysis.tables import continuation

LOOK = {"all": ("#d55e00", "D", "All candidates"), "grounded": ("#0072b2", "o", "Grounded answers")}
PLACES = {"uniform": 1.0, "executed": 0.0}


def caption(collected: Collected) -> str:
    """What the figure shows, for the study."""
    policies = [main_policy(base) for base in collected.on_each_base]
    grounded = [filtered(base).grounded() for base in collected.on_each_base]
    eligible = [g["eligible_highest_utility_vs_uniform"] for g in grounded]
    states = listed([f"{len(policy.case_ids):,}" for policy in policies])
    cases = listed([f"{gain.cases if gain else 0:,}" for gain in eligible])
    return (
        "How much more often a consultation ends in the right diagnosis if it continues from the "
        "candidate question with the highest utility, in percentage points"
        f"{on_base_models(len(policies))}; bars: paired 95% intervals, a bootstrap over cases. "
        f"{policies[0].title} continued each candidate {policies[0].manifest['continuations']} "
        f"times; all candidates ({states} states) and those with grounded answers ({cases} states "
        "against uniform selection)."
    )


def draw(collected: Collected) -> Figure:
    """The study's gains, a panel for each base model."""
    tables = [
        (
            continuation.build(base),
            continuation.grounded(base),
            len(main_policy(base).case_ids),
        )
        for base in collected.on_each_base
    ]
    return gains(tables, [f"Base model {n}" for n in range(1, len(tables) + 1)])


def caption_paper() -> str:
    """What the companion shows."""
    return f"The same from the paper's tables. {published().tables['continuation'].caption}"


def draw_paper() -> Figure:
    """The published gains."""
    paper = published()
    every, grounded = (paper.tables[name] for name in ("continuation", "grounded_continuation"))
    return gains([(every, grounded, paper.continuation_states)])


def gains(bases: Sequence[tuple[Table, Table, int]], titles: Sequence[str] = ()) -> Figure:
    """One line per comparison, its two candidate sets beneath each other.

    Args:
        bases: of each base model the tables `continuation` and `grounded_continuation`, and the
            states of all candidates.
        titles: of the panels, where there are several.
    """
    several = len(bases) > 1
    figure = Figure(figsize=(WIDTH * (1 if several else 0.75), 2.2), layout="constrained")
    axes = figure.subplots(1, len(bases), sharex=True, sharey=True, squeeze=False)[0]
    for ax, (every, grounded, states) in zip(axes, bases, strict=True):
        _panel(ax, every, grounded, states, below=several)
    for ax, title in zip(axes, titles * several, strict=False):
        ax.set_title(title, loc="left", fontweight="bold")
    axes[0].set_yticks(
        list(PLACES.values()), ["over uniform\nselection", "over executed\nquestion q₁"]
    )
    axes[0].set_ylim(-0.5, 1.5)
    axes[len(axes) // 2].set_xlabel("Gain in downstream success (pp; states in brackets)")
    handles = {
        label: handle for ax in axes
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)
    }  # fmt: skip
    if handles:
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=2)
    return figure


def _panel(ax: Axes, every: Table, grounded: Table, states: int, below: bool) -> None:
    """The gains on one base model; numbers stand beside the intervals, or `below` them."""
    ax.axvline(0, color="#555555", linewidth=0.8, zorder=1)
    ax.margins(x=0.1)
    ax.grid(axis="y", visible=False)
    for rival, place in PLACES.items():
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
                label=label, zorder=3,
            )  # fmt: skip
            at, offset, align = (gain.value, (0, -9), "center") if below else (
                interval.high, (6, 0), "left"
            )  # fmt: skip
            ax.annotate(
                f"{gain.value:+.2f}  ({count})".replace("-", "−"),
                (at, y), offset, textcoords="offset points", va="center", ha=align,
                fontsize=6.5 if below else 7.5,
            )  # fmt: skip
