"""The screen of `pcqc status --watch`, from results, locks and logs as they would be left."""

import io

from rich.console import Console
from test_status import log_of, study, unmake

from pcqc.jobs import watch
from pcqc.recipes.graph import Jobs
from pcqc.recipes.manifest import hold_folder
from pcqc.system.files import write_atomic, write_jsonl

__all__ = ["study"]  # the fixture


def lines_of(study) -> list[str]:
    written = io.StringIO()
    Console(width=120, file=written).print(watch.screen(study))
    return written.getvalue().splitlines()


def test_a_training_shows_its_curve_and_how_far_it_is(study):
    unmake(study, "train", "select", "evaluate")
    job = Jobs(study).job("train", "grpo", "A")
    rows = [{"kind": "update", "update": n, "accuracy": 0.5 + n / 10} for n in range(4)]
    write_jsonl(job.path / "events.jsonl", [*rows, {"kind": "validation", "accuracy": 0.1}])
    write_atomic(log_of(study, "train"), "2026-01-31 12:00:00 grpo A: 4/6 updates\n")
    with hold_folder(job):
        shown = lines_of(study)
    (row,) = [line for line in shown if "grpo A" in line]
    assert all(text in row for text in ("running", "▁▃▆█", "80.0 %", "4/6 updates"))
    assert "1 running" in shown[0]


def test_other_jobs_are_named_where_they_failed(study):
    unmake(study, "evaluate")
    write_atomic(log_of(study, "evaluate"), "pcqc: error: [disk] is full\n")
    assert any(line.startswith("failed   evaluate grpo A: [disk] is") for line in lines_of(study))


def test_a_flat_or_empty_curve_is_drawn():
    assert watch.sparkline([0.5, 0.5]) == "▁▁"
    assert watch.sparkline([]) == ""
    assert len(watch.sparkline([n / 100 for n in range(100)])) == watch.WIDTH
