"""The table and the figure of lost points, from rows by hand."""

import pandas as pd
import pytest

from analysis import lost_points
from analysis.table import MISSING, Number, Range
from pcqc.settings import load_study

STUDY = load_study("clinic")


def rows(*updates: tuple[int, list[float], list[float]]) -> pd.DataFrame:
    """(update, asking, stopping) -> a row for each case; nothing is lost elsewhere."""
    frames = []
    for update, asking, stopping in updates:
        cases = [f"case-{number}" for number in range(len(asking))]
        frame = pd.DataFrame({"update": update, "case_id": cases, "asking": asking})
        frame = frame.assign(stopping=stopping, remembering=0.0, concluding=0.0, exact=1.0)
        frames.append(frame.assign(policy=1 - frame.asking - frame.stopping))
    return pd.concat(frames)


RUNS = {
    ("shared_sft", "A"): rows((0, [0.5, 0.5, 1.0, 0.0], [0.5, 0.0, 0.0, 0.0])),
    ("pcqc", "A"): rows((6, [0.9] * 4, [0.1] * 4), (12, [0.0, 0.0, 0.5, 0.0], [0.5, 0, 0, 0])),
    ("pcqc", "B"): rows((6, [0.9] * 4, [0.1] * 4), (12, [0.0, 0.0, 0.0, 0.0], [0.5, 0, 0, 0])),
}


def test_points_after_the_last_update_are_set_beside_shared_sft():
    table = lost_points.table(STUDY, RUNS)
    assert [row.key for row in table.rows] == ["shared_sft", "pcqc"]
    asking = [table.cell(name, "asking") for name in ("shared_sft", "pcqc")]
    assert all(isinstance(cell, Number) for cell in asking)
    assert [cell.value for cell in asking] == [50, pytest.approx(6.25)]  # B: 0, A: 12.5
    assert asking[1].sd == pytest.approx(12.5 / 2**0.5)
    assert table.cell("pcqc", "policy").value == pytest.approx(100 - 6.25 - 12.5)
    assert table.cell("shared_sft", "asking_over_sft") == MISSING
    over = table.cell("pcqc", "asking_over_sft")
    assert isinstance(over, Range)
    assert (over.low + over.high) / 2 == pytest.approx(-43.75)
    # Both lose the same points in stopping, on the same case.
    assert table.cell("pcqc", "stopping_over_sft").text() == "[0.0, 0.0]"


def test_the_figure_begins_at_shared_sft():
    drawn = lost_points.figure(STUDY, RUNS)
    panel = drawn.axes[0]
    lines = {line.get_label(): line for line in panel.get_lines()}
    assert [*lines["PCQC"].get_xdata()] == [0, 6, 12]
    assert [*lines["PCQC"].get_ydata()] == pytest.approx([50, 90, 12.5])
