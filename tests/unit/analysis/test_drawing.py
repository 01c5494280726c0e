"""A figure is the same whatever the settings, the fonts and the LaTeX of who draws it."""

import matplotlib as mpl
import pytest
from matplotlib.figure import Figure

from analysis.drawing.style import encode, house_style


def drawn(form: str, title: str = "GRPO, run A") -> bytes:
    with house_style():
        figure = Figure(figsize=(2, 1))
        figure.add_subplot().set_title(title)
        return encode(figure, form)


@pytest.mark.parametrize("form", ["pdf", "svg", "png"])
def test_a_matplotlibrc_of_the_reader_changes_nothing(form):
    """Such as one that sets every text in LaTeX, which not every machine has."""
    wanted = drawn(form)
    theirs = {"text.usetex": True, "savefig.transparent": True, "axes.facecolor": "red"}
    with mpl.rc_context(theirs):
        assert drawn(form) == wanted
        assert mpl.rcParams["axes.facecolor"] == "red"  # theirs again


@pytest.mark.filterwarnings("ignore:Glyph")
def test_a_letter_that_no_font_has_does_not_stop_a_figure():
    assert drawn("pdf", "中 γ \U0010ffff") != drawn("pdf")
