"""The miniature study with vLLM for every role and two DeepSpeed processes, cases to report."""

import importlib.util
import json
from pathlib import Path

import pytest
from workplace import Workplace

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="vLLM is not installed"),
]
NAME = "clinic-mini-engines"


def check_updates(results: Path) -> None:
    """Every update once; the actor moved at each, and vLLM with it."""
    lines = (results / "runs" / "pcqc" / "A" / "events.jsonl").read_text().splitlines()
    updates = [event for event in map(json.loads, lines) if event["kind"] == "update"]
    assert [event["update"] for event in updates] == [1, 2, 3, 4]
    assert all(event["gradient_norm"] > 0 for event in updates)
    assert all(event["gap/max"] < 1e-4 for event in updates)
    assert all(event["failures/patient"] == 0 for event in updates)


def test_the_whole_workflow_runs_on_vllm_and_deepspeed(tmp_path):
    place = Workplace(tmp_path / "place")
    done = place.run(place.workflow(study=NAME))
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    results = place.folder / "results" / NAME
    assert (results / "report.html").is_file()
    check_updates(results)
