"""The miniature study with vLLM for every role and two DeepSpeed processes, cases to report."""

import importlib.util

import pytest
from workplace import ENGINES, Workplace, check_updates

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="vLLM is not installed"),
]


def test_the_whole_workflow_runs_on_vllm_and_deepspeed(tmp_path):
    place = Workplace(tmp_path / "place")
    done = place.run(place.workflow(study=ENGINES))
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    results = place.folder / "results" / ENGINES
    assert (results / "report.html").is_file()
    check_updates(results)
