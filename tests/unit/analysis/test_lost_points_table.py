"""Tables and figures of lost points, from rows by hand."""

import pandas as pd
import pytest

from analysis import lost_points
from analysis.table import Number
from pcqc_study.graph import Jobs
from pcqc_study.study_file import load_study

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


POINTS = pd.concat(
    rows(*made).assign(base="clinic", method=method, run=run)
    for (method, run), made in {
        ("shared_sft", "A"): [(0, [0.5, 0.5, 1.0, 0.0], [0.5, 0.0, 0.0, 0.0])],
        ("pcqc", "A"): [(6, [0.9] * 4, [0.1] * 4), (12, [0.0, 0.0, 0.5, 0.0], [0.5, 0, 0, 0])],
        ("pcqc", "B"): [(6, [0.9] * 4, [0.1] * 4), (12, [0.0, 0.0, 0.0, 0.0], [0.5, 0, 0, 0])],
    }.items()
)


def test_points_after_the_last_update_are_averaged_over_runs():
    table = lost_points.table(STUDY, POINTS)
    assert [row.key for row in table.rows] == ["shared_sft", "pcqc"]
    asking = [table.cell(name, "asking") for name in ("shared_sft", "pcqc")]
    assert all(isinstance(cell, Number) for cell in asking)
    assert [cell.value for cell in asking] == [50, pytest.approx(6.25)]  # B: 0, A: 12.5
    assert asking[1].sd == pytest.approx(12.5 / 2**0.5)
    assert table.cell("pcqc", "policy").value == pytest.approx(100 - 6.25 - 12.5)


def test_lost_points_are_compared_with_methods_without_credit_for_questions():
    table = lost_points.differences(STUDY, POINTS)
    assert [row.cells[0] for row in table.rows] == ["PCQC − Shared SFT"]
    assert table.cell("pcqc-shared_sft", "asking").value == pytest.approx(-43.75)
    # Both lose the same points in stopping, on the same case. Of other cases than these four at
    # most 1 - 0.025^(1/4) differ, each by up to 200 points.
    assert table.cell("pcqc-shared_sft", "stopping_interval").text() == "[−120.5, +120.5]"


def test_runs_on_several_base_models_are_pooled():
    other = POINTS.assign(base="clinic-2", asking=POINTS.asking / 2)
    table = lost_points.table(STUDY, pd.concat([POINTS, other]))
    assert table.cell("pcqc", "asking").value == pytest.approx(6.25 * 3 / 4)
    assert "on two base models" in table.caption
    drawn = lost_points.by_place(STUDY, pd.concat([POINTS, other]))
    assert [len(dots.get_offsets()) for dots in drawn.axes[0].collections[::2]] == [2, 4]


def test_the_course_begins_at_shared_sft():
    drawn = lost_points.by_update(STUDY, POINTS)
    panel = drawn.axes[0]
    lines = {line.get_label(): line for line in panel.get_lines()}
    assert [*lines["PCQC"].get_xdata()] == [0, 6, 12]
    assert [*lines["PCQC"].get_ydata()] == pytest.approx([50, 90, 12.5])


def test_the_points_of_a_replicate_join_once_its_table_is_made(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def inputs():
        return Jobs(load_study("clinic-full")).job("lost_points_table").inputs

    assert not [name for name in inputs() if name.startswith("replicate")]
    made = Jobs(load_study("clinic-full-2")).job("lost_points_table")
    made.path.mkdir(parents=True)
    made.manifest.write_text("{}")
    (joined,) = (name for name in inputs() if name.startswith("replicate"))
    assert joined == "replicate clinic-full-2"
    assert inputs()[joined].path == made.path
