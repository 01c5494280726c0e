"""The miniature study with vLLM for every role and two DeepSpeed processes, cases to report."""

import importlib.util

import pytest
from workplace import Workplace

from pcqc_base.system.files import read_jsonl

STUDY = "clinic-mini-engines"

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="vLLM is not installed"),
]


def test_the_whole_workflow_runs_on_vllm_and_deepspeed(tmp_path):
    place = Workplace(tmp_path / "place")
    done = place.run(place.workflow(study=STUDY))
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    results = place.folder / "results" / STUDY
    assert (results / "report.html").is_file()
    # Every update once; the actor moved at each, and vLLM with it.
    events = [row for _, row in read_jsonl(results / "runs/pcqc/A/latest/events.jsonl")]
    updates = [event for event in events if event["kind"] == "update"]
    assert [event["update"] for event in updates] == [1, 2, 3, 4]
    assert all(event["gradient_norm"] > 0 for event in updates)
    assert all(event["gap/max"] < 1e-4 for event in updates)
    assert all(event["failures/patient"] == 0 for event in updates)
