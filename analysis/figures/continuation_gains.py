"""fig:continuation_validation: gains of the highest-utility candidate, all and grounded ones."""

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

from analysis.collected import Collected
from analysis.continuation import Gain, main_policy
from analysis.drawing.style import WIDTH
from analysis.published import published

STATES = 128  # of the paper's study
LOOK = {"all": ("#d55e00", "D", "All candidates"), "grounded": ("#0072b2", "o", "Grounded answers")}


@dataclass(frozen=True)
class Bar:
    """One gain in percentage points: over which rival, among which candidates."""

    rival: str
    among: str
    gain: float
    low: float
    high: float
    cases: int


def caption(collected: Collected) -> str:
    """What the figure shows, for the study."""
    policy = main_policy(collected)
    manifest = policy.manifest
    grounded = policy.grounded()["eligible_highest_utility_vs_uniform"]
    states = len(policy.as_answered().case_ids)
    return (
        "Downstream diagnostic gains from highest-utility candidate selection. Markers: gain in "
        "success, in percentage points; bars: paired 95% case-bootstrap intervals. "
        f"{manifest['continuations']} continuations per candidate by {policy.title}; all "
        f"candidates ({states:,} states) and grounded ones "
        f"({grounded.cases if grounded else 0:,} states against uniform selection)."
    )


def draw(collected: Collected) -> Figure:
    """The study's gains."""
    policy = main_policy(collected)
    grounded, policy = policy.grounded(), policy.as_answered()
    bars = [
        _bar("uniform", "all", policy.gain_over("uniform")),
        _bar("uniform", "grounded", grounded["eligible_highest_utility_vs_uniform"]),
        _bar("executed", "all", policy.gain_over("executed")),
        _bar("executed", "grounded", grounded["eligible_highest_utility_vs_executed"]),
    ]
    return gains([bar for bar in bars if bar])


def _bar(rival: str, among: str, gain: Gain | None) -> Bar | None:
    """None where no case has enough grounded answers."""
    if gain is None:
        return None
    return Bar(rival, among, gain.gain, gain.interval.low, gain.interval.high, gain.cases)


def caption_paper() -> str:
    """What the companion shows."""
    return f"The same from the paper's tables. {published().tables['continuation'].caption}"


def draw_paper() -> Figure:
    """The published gains."""
    tables = published().tables
    every, grounded = tables["continuation"], tables["grounded_continuation"]
    bars = []
    for rival in ("uniform", "executed"):
        row = f"eligible_highest_utility_vs_{rival}"
        cases = int(grounded.cell(row, "cases").value)
        for among, table, key, count in (
            ("all", every, rival, STATES),
            ("grounded", grounded, row, cases),
        ):
            interval = table.cell(key, "interval")
            gain = table.cell(key, "gain").value
            bars.append(Bar(rival, among, gain, interval.low, interval.high, count))
    return gains(bars)


def gains(bars: Sequence[Bar]) -> Figure:
    """One line per comparison, its two candidate sets beneath each other."""
    figure = Figure(figsize=(WIDTH * 0.75, 2.2), layout="constrained")
    ax = figure.subplots()
    ax.axvline(0, color="#555555", linewidth=0.8, zorder=1)
    ax.margins(x=0.1)
    places = {"uniform": 1.0, "executed": 0.0}
    for bar in bars:
        colour, marker, label = LOOK[bar.among]
        y = places[bar.rival] + (0.16 if bar.among == "all" else -0.16)
        error = [[bar.gain - bar.low], [bar.high - bar.gain]]
        first = bar.rival == "uniform" or all(b.rival != "uniform" for b in bars)
        ax.errorbar(
            bar.gain, y, xerr=error, fmt=marker, color=colour, markersize=6, capsize=3,
            label=label if first else None, zorder=3,
        )  # fmt: skip
        ax.annotate(
            f"{bar.gain:+.2f}  ({bar.cases})".replace("-", "−"),
            (bar.high, y), (6, 0), textcoords="offset points", va="center", fontsize=7.5,
        )  # fmt: skip
    ax.set_yticks(list(places.values()), ["over uniform\nselection", "over executed\nquestion q₁"])
    ax.set_ylim(-0.5, 1.5)
    ax.grid(axis="y", visible=False)
    ax.set_xlabel("Gain in downstream success (pp; states in brackets)")
    if bars:
        figure.legend(loc="outside lower center", ncols=2)
    return figure
