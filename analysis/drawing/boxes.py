"""Diagrams: rounded boxes of text and arrows between them, placed in inches."""

from textwrap import fill

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

INK = "#222222"
PLAIN = ("#f5f5f5", "#8a8a8a")
ACTOR = ("#e3eef7", "#0072b2")
PATIENT = ("#e4f3ee", "#009e73")
SCORER = ("#f6e8f0", "#a85487")
CREDIT = ("#fbe9df", "#d55e00")
SIZE = 7.5  # points


def canvas(width: float, height: float) -> tuple[Figure, Axes]:
    """An empty figure whose coordinates are inches, from its lower left corner."""
    figure = Figure(figsize=(width, height))
    ax = figure.add_axes((0, 0, 1, 1))
    ax.set_xlim(0, width)
    ax.set_ylim(0, height)
    ax.set_axis_off()
    return figure, ax


def box(
    ax: Axes,
    left: float,
    bottom: float,
    width: float,
    height: float,
    text: str,
    look: tuple[str, str] = PLAIN,
    bold: bool = False,
) -> None:
    """A rounded box with centred text."""
    face, edge = look
    style = "round,pad=0,rounding_size=0.06"
    ax.add_patch(
        FancyBboxPatch(
            (left, bottom), width, height, boxstyle=style, facecolor=face, edgecolor=edge,
            linewidth=1.6 if bold else 0.9,
        )
    )  # fmt: skip
    write(ax, left + width / 2, bottom + height / 2, text)


def write(ax: Axes, x: float, y: float, text: str, align: str = "center", **options) -> None:
    """Text around a point, vertically centred."""
    settings = {"fontsize": SIZE, "color": INK, "linespacing": 1.25, "parse_math": True, **options}
    ax.text(x, y, text, ha=align, va="center", **settings)


def arrow(
    ax: Axes,
    start: tuple[float, float],
    end: tuple[float, float],
    colour: str = INK,
    dashed: bool = False,
) -> None:
    """An arrow from one point to another."""
    ax.add_patch(
        FancyArrowPatch(
            start, end, arrowstyle="-|>", mutation_scale=9, color=colour, linewidth=1.1,
            linestyle="--" if dashed else "-", shrinkA=0, shrinkB=0,
        )
    )  # fmt: skip


def wrapped(text: str, width: int, lines: int = 2) -> str:
    """Text broken to `width` characters, cut after `lines` lines; a dollar is no formula."""
    return fill(text.replace("$", r"\$"), width, max_lines=lines, placeholder=" …")
