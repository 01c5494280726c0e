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
    of_updates, of_costs = drawn(learning_curves, made)[2], drawn(cost_curves, made)[6]
    assert lines(of_updates)["PCQC"] == [[5, 12.5], [10, 25], [15, 37.5], [20, 50]]
    assert lines(of_costs)["PCQC"] == [[50, 12.5], [100, 25], [150, 37.5], [200, 50]]
    none = replace(made, updates=made.updates.drop(columns="best_questions"))
    assert len(drawn(cost_curves, none)) == 2 * 3
    assert "Best questions" not in learning_curves.caption(none)


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
