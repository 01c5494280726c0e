"""Credits beside exact values, as a figure."""

from matplotlib.figure import Figure

from analysis.drawing.style import WIDTH, look
from credit_lab.quality.measures import CHANCE, CREDITS, LAST, Judged


def draw(judged: Judged) -> Figure:
    """Rank correlation with exact values, and what the favoured question loses, by credit."""
    figure = Figure(figsize=(WIDTH, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    names = sorted(CREDITS, key=lambda name: judged.qualities[name].rank[LAST].mean)
    for ax, measure in ((left, "rank"), (right, "regret")):
        for place, name in enumerate(names):
            estimate = getattr(judged.qualities[name], measure)[LAST]
            colour, marker = look(name)
            ax.plot([estimate.low, estimate.high], [place, place], color=colour, linewidth=1.2)
            ax.plot([estimate.mean], [place], marker=marker, color=colour, markersize=5)
        chance = getattr(judged.qualities[CHANCE], measure)[LAST].mean
        ax.axvline(chance, color="#888888", linestyle=":", linewidth=1)
        ax.annotate(
            "chance", (chance, len(names) - 0.45), fontsize=7, color="#555555", ha="center",
            annotation_clip=False,
        )  # fmt: skip
        ax.set_ylim(-0.6, len(names) - 0.2)
    left.set_yticks(range(len(names)), [CREDITS[name][0] for name in names])
    left.set_xlabel("Rank correlation with exact value")
    right.set_xlabel("Regret of the favoured question (points)")
    right.set_xlim(left=-0.4)
    return figure
