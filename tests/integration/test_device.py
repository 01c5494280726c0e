"""What a device reaches: the arithmetic by hand, and small runs in both number formats."""

import dataclasses
import json
import os
import subprocess
import sys

import numpy as np
import pytest
from helpers import tiny_model

from benchmarks import device
from pcqc.errors import UserError
from pcqc.planning.architecture import Architecture
from pcqc.planning.checks import misfits
from pcqc.planning.cost import update_passes
from pcqc.planning.devices import named
from pcqc.study import ROOT, LearnerPlacement, load_study
from pcqc.training.batching import SelectedTokens
from pcqc.training.policy import Policy
from pcqc.training.token_trees import merge_prefixes

TREES = "update: tokens of the merged sequences"
LAYER = 4 * 6 + 2 * 4 * 3 + 6 * 4 + 3 * 4 * 5  # queries; keys, values; output; feed-forward


def marked(tokens: list[int], last: int) -> SelectedTokens:
    """A sequence of which the last few tokens are trained on."""
    return SelectedTokens(tokens, np.arange(len(tokens)) >= len(tokens) - last)


def test_flops_by_hand():
    """Six nodes, of which the first three are shared; each sees itself and its ancestors."""
    shape = Architecture(4, 1, heads=2, kv_heads=1, head_dim=3, hidden=5, vocabulary=7, tied=True)
    sequences = [marked([1, 2, 3, 4], last=1), marked([1, 2, 3, 5, 6], last=2)]
    trees = merge_prefixes(sequences, 100, "cpu")
    assert [len(tree.tokens) for tree in trees] == [6]
    matrices = 2 * LAYER * 6
    attention = 4 * 2 * 3 * (1 + 2 + 3 + 4 + 4 + 5)
    output = 2 * 4 * 7 * 3
    assert device.update_flops(shape, trees, passes=4) == 4 * (matrices + attention + output)


def test_passes_of_an_update():
    study = load_study("clinic")
    pcqc, atpo = study.method("pcqc"), study.method("atpo")
    free = dataclasses.replace(pcqc, kl_coefficient=0.0)
    assert [update_passes(method, False) for method in (free, pcqc, atpo)] == [3, 4, 5]
    assert update_passes(pcqc, recomputed=True) == 5


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("NVIDIA H200", "H200"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA A100-SXM4-40GB", "A100-40GB"),
        ("NVIDIA A100-SXM4-80GB", "A100"),
        ("NVIDIA GeForce RTX 4090", "RTX-4090"),
        ("NVIDIA H100 PCIe", None),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", None),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", None),
        ("NVIDIA GH200 480GB", None),
        ("Tesla T4", None),
    ],
)
def test_a_device_is_known_by_its_drivers_name(name, kind):
    assert named(name) == kind


def test_the_rate_of_a_product(monkeypatch):
    monkeypatch.setattr(device, "SIZE", {"cpu": 10, "cuda": 10})
    monkeypatch.setattr(device, "timed", lambda call: call() or 0.001)
    assert device.product_rate("bfloat16") == pytest.approx(2 * 10**3 / 0.001)


def test_bfloat16_and_checkpointing_are_deepspeeds():
    clinic = load_study("clinic")
    plain = device.on_this_device(clinic, "transformers")
    assert (plain.placement, plain.engine.kind) == (None, "transformers")
    half = device.on_this_device(clinic, "vllm", "bfloat16")
    assert half.placement.learner == LearnerPlacement((0,), zero=1)
    assert [half.dtype(r) for r in ("actor", "patient", "scorer")] == ["bfloat16"] * 3
    again = device.on_this_device(clinic, "transformers", recomputed=True)
    assert again.placement.learner == LearnerPlacement((0,), zero=1, gradient_checkpointing=True)
    assert again.dtype("scorer") == "float32"
    # The real study is in bfloat16 by itself.
    assert device.on_this_device(load_study("real"), "transformers").placement is not None
    assert again.engine.process == "own"


def test_what_exhausts_a_gpu_by_the_plan_is_refused(monkeypatch):
    """As `real` would with the transformers engine's cache; its own engine fits."""
    monkeypatch.setattr(device, "gpu_name", lambda: "NVIDIA H100 80GB HBM3")
    study = device.on_this_device(load_study("real"), "transformers")
    with pytest.raises(UserError, match=r"cannot run: .* GiB each .* and H100 has"):
        device.measured(study, 1)
    assert not misfits(device.on_this_device(load_study("real"), None))


def test_torch_alone_refuses_bfloat16():
    """A step of 1e-6 on a weight of 0.01 is a fiftieth of what bfloat16 can tell apart there."""
    with pytest.raises(UserError, match=r"round away in weights of bfloat16: give .* a placement"):
        Policy(tiny_model(0).bfloat16(), None, load_study("clinic").rl)


def check(rows: dict[str, float], details: dict) -> None:
    """Rates of one update against its seconds and counts."""
    (seconds,), counts = details["seconds"], details["last_update"]
    trained = rows["update: tokens in the loss"] * seconds["update"]
    assert trained == pytest.approx(counts["trained_tokens"])
    assert rows[TREES] * seconds["update"] == pytest.approx(counts["tree_tokens"])
    assert counts["trained_tokens"] < counts["tree_tokens"] < counts["sequence_tokens"]
    written = rows["rollouts: tokens written by the actor"] * seconds["rollout"]
    assert written >= counts["sampled_tokens"] - 0.5
    assert 0 < rows[f"{device.UTILISATION}, by a product of matrices here"] < 100
    assert rows["peak memory"] > 0.1


def test_a_small_run_in_float32(prepared, monkeypatch):
    monkeypatch.chdir(prepared)
    study = device.on_this_device(load_study(prepared / "small.yaml"), "transformers")
    findings, details = device.measured(study, updates=1)
    rows = {f.what: f.middle for f in findings}
    check(rows, details)
    assert (details["learner"], details["dtype"]) == ("torch", "float32")
    assert rows["gap of engine and learner, largest"] < 1e-4


def test_a_small_run_in_bfloat16_with_gradient_checkpointing(prepared):
    """In a process of its own, as DeepSpeed starts but once in one; it prints JSON alone."""
    options = ["--study", "small.yaml", "--dtype", "bfloat16", "--gradient-checkpointing"]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.device", *options, "--updates", "1"],
        cwd=prepared,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    details = json.loads(done.stdout)
    rows = {f["what"]: f["value"] for f in details["findings"]}
    rows = {n: v["median"] if isinstance(v, dict) else v for n, v in rows.items()}
    check(rows, details)
    assert (details["learner"], details["dtype"]) == ("DeepSpeed, ZeRO 1", "bfloat16")
    assert details["gradient_checkpointing"]
    # bfloat16 rounds: engine and learner differ, and more than in float32.
    assert 1e-4 < rows["gap of engine and learner, largest"] < 1


def test_a_study_without_models_is_told_in_a_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="2"):
        device.main(["--study", "clinic"])
    assert "error: " in capsys.readouterr().err
