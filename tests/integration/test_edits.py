"""What an edit makes again: trainings by what decides their numbers, and by nothing else."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pcqc_base.system.checkout import ROOT

CODE = ("analysis", "config", "data_prep", "packages", "src")
STUDIES = ("clinic", "clinic-full")
GPU = "src/pcqc_gpu"
FIFTH = """
  clinic_fifth:
    title: Clinic-Fifth
    role: held_out
    cases: 20
    options: [4]
    recorded_facts: 0.9

# A published base model"""
# Edits that decide no number.
HARMLESS = {
    "a comment": [("src/pcqc/jobs/rl_loop.py", "import time\n", "import time  # of updates\n")],
    "a word of a method's description": [
        ("src/pcqc_study/describe.py", 'with the reward of the "', 'by the reward of the "'),
    ],
    "an MLflow note": [
        ("src/pcqc_study/mlflow_mirror/notes.py", "each method is a parent", "a method is a parent")
    ],
    "the progress line": [
        ("src/pcqc_base/system/progress.py", "s left {parts}", "s to go {parts}")
    ],
    "an error text of engines and backends that the studies do not use": [
        (f"{GPU}/engines/vllm_start.py", "vLLM does not start", "vLLM cannot start"),
        (f"{GPU}/engines/server.py", '"a served role is frozen"', '"served roles are frozen"'),
        (f"{GPU}/deepspeed_backend.py", "\n\n\nclass ", "\n\nEDITED = 1\n\n\nclass "),
    ],
    "an error text of the core": [
        ("src/pcqc/jobs/rl_loop.py", "training cases are fewer than", "training cases are not")
    ],
    "the guard against formulas in CSV files": [
        ("src/pcqc_base/system/files.py", "def no_formula(", "EDITED = 1\n\n\ndef no_formula(")
    ],
    "a logged metric": [
        (
            "src/pcqc/logged/rollouts.py",
            '        "accuracy":',
            '        "more": 1.0,\n        "accuracy":',
        )
    ],
    "a formula of the plan": [
        (f"{GPU}/planning/memory.py", "import", "EDITED = 1\nimport"),
    ],
    "a new setting of `rl` with a default": [
        (
            "src/pcqc_base/settings/training.py",
            "    sampled_consultations: Whole = 8",
            "    another: Whole = 3\n    sampled_consultations: Whole = 8",
        )
    ],
    "a benchmark's printed title": [
        ("config/studies/clinic.yaml", "title: Clinic-Dev", "title: Clinic-Development"),
    ],
    "a fifth benchmark": [("config/studies/clinic.yaml", "\n# A published base model", FIFTH)],
}
# Edits that decide numbers, and the trainings that they remake: all whose names begin so.
ARITHMETIC = "packages/turn_credit/src/turn_credit/arithmetic.py"
DECIDING = {
    "a constant of the credit's arithmetic": (
        [(ARITHMETIC, "\n\ndef ", "\n\nEDITED = 1\n\n\ndef ")],
        {"grpo", "pcqc", "terminal_only", "executed_local", "same_state_q1"},
    ),
    "the credit of one method": (
        [("src/pcqc/methods/executed_local.py", "gains[0]", "gains[-1]")],
        {"executed_local"},
    ),
    "a setting of one method": (
        [
            (
                "config/methods.yaml",
                "  supervise: executed\n  beta: 1.0",
                "  supervise: executed\n  beta: 2.0",
            )
        ],
        {"same_state_q1"},
    ),
}


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """A function: fingerprints of a copy of the code before any edit, and after each of some."""
    folder = tmp_path_factory.mktemp("code")
    for name in CODE:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("*.egg-info"))
    script = Path(__file__).parents[1] / "support" / "fingerprints.py"
    sources = ["src", *(f"packages/{p}/src" for p in ("clinic_env", "pcqc_peers", "turn_credit"))]
    path = os.pathsep.join(str(folder / name) for name in (*sources, "."))

    def after(edits: list) -> list[dict[str, str]]:
        (folder / "edits.json").write_text(json.dumps(edits))
        done = subprocess.run(
            [sys.executable, str(script), str(folder), str(folder / "edits.json"), *STUDIES],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return list(map(json.loads, done.stdout.splitlines()))

    return after


@pytest.fixture(scope="module")
def made(printed):
    """Fingerprints before any edit, and after each.

    Where all harmless edits together change none, none of them does.
    """
    harmless = list(HARMLESS.values())
    at_once = [part for edit in harmless for part in edit]
    before, together, *deciding = printed([at_once, *(edit for edit, _ in DECIDING.values())])
    alone = [before] * len(harmless) if together == before else printed(harmless)[1:]
    return before, dict(zip([*HARMLESS, *DECIDING], [*alone, *deciding], strict=True))


def trainings(made, edit: str) -> set[str]:
    """Trainings, as `study train method run`, that have another fingerprint after the edit."""
    before, after = made[0], made[1][edit]
    return {name for name in before if after[name] != before[name]}


@pytest.mark.parametrize("edit", HARMLESS)
def test_what_decides_no_number_remakes_no_training(made, edit):
    assert trainings(made, edit) == set()


@pytest.mark.parametrize("edit", DECIDING)
def test_what_decides_a_number_remakes_every_training_that_it_decides(made, edit):
    methods = {name.split()[2] for name in trainings(made, edit)}
    controls = {name.split()[2] for name in made[0]} & {
        *("grpo", "atpo", "pcqc", "terminal_only", "executed_local", "same_state_q1")
    }
    assert methods & controls == DECIDING[edit][1]
