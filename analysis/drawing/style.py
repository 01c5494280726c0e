"""How every figure looks, and how it is written: the same bytes for the same numbers."""

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

if TYPE_CHECKING:
    from analysis.collected import Collected

PIXELS_PER_INCH = 200
WIDTH = 7.0  # inches, a text column
_ACROSS = 4  # entries of a legend, at most

# Okabe and Ito's palette, told apart by all common forms of colour vision, and a marker each, so
# that print without colour works too.
LOOKS = {
    "shared_sft": ("#000000", "s"),
    "grpo": ("#0072b2", "o"),
    "atpo": ("#009e73", "^"),
    "pcqc": ("#d55e00", "D"),
    "terminal_only": ("#56b4e9", "v"),
    "executed_local": ("#cc79a7", "P"),
    "same_state_q1": ("#e69f00", "X"),
}
OTHER = ("#7f7f7f", "*")

_SETTINGS = {
    "font.family": "DejaVu Sans",
    "font.size": 8,
    "axes.titlesize": 9,
    "axes.labelsize": 8,
    "legend.fontsize": 8,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.6,
    "axes.edgecolor": "#555555",
    "axes.linewidth": 0.7,
    "lines.linewidth": 1.4,
    "legend.frameon": False,
    # A dollar in a title or an answer is a dollar; diagrams ask for formulas themselves.
    "text.parse_math": False,
    "pdf.fonttype": 42,
    "svg.fonttype": "path",
    # SVG ids are random without a salt.
    "svg.hashsalt": "pcqc",
    "figure.dpi": PIXELS_PER_INCH,
}
_METADATA = {
    "pdf": {"CreationDate": None, "Producer": None, "Creator": None},
    "svg": {"Date": None, "Creator": None},
    "png": {"Software": None},
}


def look(method: str) -> tuple[str, str]:
    """Colour and marker of a method."""
    return LOOKS.get(method, OTHER)


def mark(method: str, title: str, size: float, alpha: float | None = None) -> Line2D:
    """A method's entry in a legend: its marker, without a line."""
    colour, marker = look(method)
    return Line2D(
        [], [], color=colour, marker=marker, linestyle="", markersize=size, alpha=alpha, label=title
    )


def legend_below(figure: Figure, handles: Sequence[Artist]) -> None:
    """One legend for all panels, in rows of about equal length."""
    rows = -(-len(handles) // _ACROSS)
    figure.legend(handles=handles, loc="outside lower center", ncols=-(-len(handles) // rows))


def panels_of_bases(
    figure: Figure, collected: "Collected", **options: Any
) -> list[tuple[Axes, "Collected"]]:
    """A panel beside the other for each base model, with the study on it; one has no title."""
    bases = collected.on_each_base
    axes = figure.subplots(1, len(bases), squeeze=False, **options)[0]
    for number, ax in enumerate(axes, 1):
        name_base(ax, collected, number)
    return list(zip(axes, bases, strict=True))


def name_base(ax: Axes, collected: "Collected", number: int) -> None:
    """A panel's title where there are several base models."""
    if collected.others:
        ax.set_title(f"Base model {number}", loc="left", fontsize=8.5, fontweight="bold")


@contextmanager
def house_style() -> Iterator[None]:
    """The settings of all figures, and no others, for the time of drawing and writing one."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_SETTINGS)
        yield


def encode(figure: Figure, form: str) -> bytes:
    """The figure's file content; call it inside `house_style`."""
    file = io.BytesIO()
    figure.savefig(file, format=form, metadata=_METADATA[form], dpi=PIXELS_PER_INCH)
    return file.getvalue()
