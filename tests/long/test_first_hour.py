"""A GPU's first hour, step by step, on a study of processes and engines that a CPU has too.

Its two processes take dialogues from one queue: an engine plays four at once, of eight in a part.
"""

import re
import shutil
import sys

from workplace import Workplace

from pcqc_base.system.checkout import ROOT
from pcqc_base.system.files import read_json

STUDY = "clinic-mini-engines"


def test_the_first_hour_of_a_gpu_runs_on_two_processes_with_vllm(tmp_path):
    place = Workplace(tmp_path / "place")
    shutil.copytree(ROOT / "benchmarks", place.folder / "benchmarks")
    command = [sys.executable, "-m", "benchmarks.first_hour", "--study", STUDY, "--updates", "1"]
    done = place.run(command)
    results = place.folder / "results" / STUDY
    record = read_json(results / "first-hour.json")
    assert done.returncode == 0, record["steps"]
    assert [step["held"] for step in record["steps"]] == [True] * 5
    # Killed at its first state, the run has every update once, with the engine's weights its own.
    assert [gap["update"] for gap in record["gaps"]] == [1, 2, 3, 4]
    assert all(gap["gap/max"] < 1e-4 for gap in record["gaps"])
    assert all(0 <= accuracy <= 1 for accuracy in record["accuracy"].values())
    assert len(record["accuracy"]) == 4
    assert record["measured"]["processes"] == 2
    assert all(0 < share < 1 for share in record["utilisation"].values())
    lines = (results / "first-hour.md").read_text().splitlines()
    phases = [line.split("|")[1].strip() for line in lines if line.startswith("|")]
    assert {"engines", "update", "sync", "rest", "whole", "start", "checkpoint", "state"} <= set(
        phases
    )
    planned = place.run(place.command("plan", STUDY))
    assert planned.returncode == 0, planned.stderr
    assert re.search(r"^pcqc +\d+ +\d+ +\d+ +\d+\.\d+ ", planned.stdout, re.MULTILINE)
