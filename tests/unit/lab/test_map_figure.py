"""The map's verdicts, its hits, and its table and figure from cells made up here."""

import dataclasses

import pytest

from credit_lab.map import results as the_map
from credit_lab.map.outcomes import GRPO, Difference, TrainedCell, paired
from credit_lab.map.settings import load_map
from credit_lab.map.table import build

MAP = load_map()
BUDGETS = [0, 50, 200]


def cell(name: str, gap: float, predicted: str, settings: dict | None = None) -> TrainedCell:
    """PCQC `gap` points ahead of both others, 0.1 more or less by runs."""

    def runs(level: float) -> dict:
        rows = [[level, level + spread] for spread in (0.1, 0.1, 0.1)]
        return dict.fromkeys(("accuracy", "bayes", "asked", "updates"), rows)

    trained = {"grpo": runs(50.0), "terminal_only": runs(50.0), "pcqc": runs(50.0)}
    for measure in ("accuracy", "bayes"):
        rows = trained["pcqc"][measure]
        trained["pcqc"][measure] = [[a + gap, b + gap + 0.1] for a, b in rows]
    numbers = ("best_over_average", "headroom", "fidelity", "advantage", "scaled")
    prediction = {**dict.fromkeys(numbers, "1.0"), "predicted": predicted}
    return TrainedCell(
        {
            "cell": name,
            "settings": settings or {},
            "prediction": {**prediction, "predicted_scaled": "none"},
            "rule": {"margin": 2.0},
            "budgets": BUDGETS,
            "budget": 200,
            "trained": {"shared_rate": trained, "own_rates": trained},
        },
    )


def test_a_paired_interval_by_hand():
    """Gaps 1, 2, 3: mean 2, deviation 1; t of 0.975 with 2 degrees of freedom is 4.3027."""
    found = paired([2.0, 4.0, 6.0], [1.0, 2.0, 3.0])
    assert found.mean == pytest.approx(2)
    assert found.high - 2 == pytest.approx(4.3027 / 3**0.5, abs=1e-4)
    assert found.sign == 0


@pytest.mark.parametrize(
    ("mean", "low", "high", "expected"),
    [
        (3.0, 1.0, 5.0, "ahead"),
        (-3.0, -5.0, -1.0, "behind"),
        (1.0, 0.2, 1.8, "none"),
        (1.5, 0.5, 2.5, "undecided"),
        (3.0, -1.0, 7.0, "undecided"),
        (-1.0, -2.5, 0.5, "undecided"),
    ],
)
def test_verdicts(mean, low, high, expected):
    assert Difference(mean, low, high).outcome(2.0) == expected


def test_notes_count_decided_cells_alone():
    wide = cell("wide", 3.0, "ahead")
    wide["trained"]["shared_rate"]["pcqc"]["accuracy"][2] = [40.0, 70.0]
    cells = [cell("a", 5.0, "ahead"), cell("b", 0.5, "ahead"), cell("c", -5.0, "none"), wide]
    assert [one.outcome() for one in cells] == ["ahead", "none", "behind", "undecided"]
    assert build(cells).notes[1] == (
        "Right, one rate, budget 200: rule 1, scaled rule 1 of 3 decided cells of 4; always 'ahead'"
        " 1, always 'none' 1."
    )
    assert cells[0].ahead_of(GRPO, budget=50).mean == pytest.approx(5.05)


def test_table_and_figure_are_written_from_all_cells(tmp_path, monkeypatch):
    cells = [
        cell(name, number - 3.0, "ahead", dataclasses.asdict(settings))
        for number, (name, settings) in enumerate(MAP.cells.items())
    ]
    monkeypatch.setattr(the_map, "load", lambda folders: cells)
    the_map.write_results([], tmp_path)
    assert {path.suffix for path in tmp_path.iterdir()} == {".csv", ".md", ".svg", ".png"}
    text = (tmp_path / "map.md").read_text()
    assert "G\\_Q 8" in text
    assert f"decided cells of {len(MAP.cells)}" in text
    assert len((tmp_path / "map.csv").read_text().splitlines()) == 1 + len(MAP.cells)
    before = (tmp_path / "map.svg").read_bytes()
    the_map.write_results([], tmp_path)
    assert (tmp_path / "map.svg").read_bytes() == before
