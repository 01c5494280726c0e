"""What the curves of training show, point by point."""

from dataclasses import replace

import pandas as pd
import pytest
from budgeted import fifths, two_methods

from analysis.drawing.style import LOOKS, house_style
from analysis.figures import cost_curves, learning_curves


@pytest.fixture
def made(collected):
    return two_methods(collected, fifths)


def lines(ax):
    return {line.get_label(): line.get_xydata().tolist() for line in ax.lines}


def drawn(figure, collected):
    with house_style():
        return figure.draw(collected).axes


def test_print_without_colour_tells_methods_apart():
    assert len({marker for _, marker in LOOKS.values()}) == len(LOOKS)


def test_equal_updates_are_not_equal_cost(made):
    """Five updates are 50 consultations of PCQC and 100 of GRPO, 0.025 million tokens of both."""
    start = made.average("shared_sft", ["clinic_dev"]).mean
    accuracy, tokens, compute = drawn(cost_curves, made)[:3]
    assert lines(accuracy)["PCQC"] == [[0, start], [50, 5], [100, 10], [150, 15], [200, 20]]
    assert lines(accuracy)["GRPO"] == [[0, start], [100, 5], [200, 10], [300, 15], [400, 20]]
    assert lines(tokens)["GRPO"][1] == pytest.approx([0.025, 5])
    assert lines(compute)["GRPO"][1] == [2.5, 5]


def test_best_questions_have_a_panel_where_they_were_recorded(made):
    """A fortieth more with every update; Shared SFT is not validated, so lines have no start."""
    of_updates = drawn(learning_curves, made)[2]
    assert lines(of_updates)["PCQC"] == [[5, 12.5], [10, 25], [15, 37.5], [20, 50]]
    none = replace(made, updates=made.updates.drop(columns="best_questions"))
    assert "Best questions" not in learning_curves.caption(none)


def test_every_base_model_has_its_curves(made):
    """On the second, validations are a tenth lower; both rows share an axis."""
    rows = made.updates.assign(accuracy=made.updates["accuracy"] - 0.1)
    both = replace(made, others=(replace(made, updates=rows),))
    first, second = drawn(cost_curves, both)[0], drawn(cost_curves, both)[3]
    lower = [[x, pytest.approx(y - 10)] for x, y in lines(first)["PCQC"][1:]]
    assert lines(second)["PCQC"][1:] == lower
    panels = drawn(learning_curves, both)
    assert lines(panels[3])["PCQC"][1][1] == pytest.approx(lines(panels[0])["PCQC"][1][1] - 10)
    assert [ax.get_ylabel() for ax in panels[:6:3]] == ["Base model 1", "Base model 2"]


def test_a_run_that_ended_before_stays_what_it_was(made):
    """Run B ends after ten updates, with accuracies a tenth above A's."""
    rows = made.updates
    second = rows[(rows["method"] == "pcqc") & (rows["update"] <= 10)]
    second = second.assign(run="B", accuracy=second["accuracy"] + 0.1)
    both = replace(
        made.with_runs({"pcqc": ("A", "B")}),
        updates=pd.concat([rows, second], ignore_index=True),
    )
    ends = lines(drawn(learning_curves, both)[0])["PCQC"][1:]
    means = {5: 10, 10: 15, 15: 17.5, 20: 20}
    assert ends == [[update, pytest.approx(mean)] for update, mean in means.items()]
