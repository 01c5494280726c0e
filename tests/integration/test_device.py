"""What a device reaches: the arithmetic by hand, and small runs in both number formats."""

import dataclasses
import json
import os
import subprocess
import sys

import numpy as np
import pytest

from benchmarks import device
from pcqc.errors import UserError
from pcqc.planning.architecture import Architecture
from pcqc.planning.checks import misfits
from pcqc.planning.cost import update_passes
from pcqc.planning.devices import named
from pcqc.study import ROOT, LearnerPlacement, load_study
from pcqc.training.batching import SelectedTokens
from pcqc.training.token_trees import merge_prefixes

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


def test_bfloat16_and_checkpointing_are_deepspeeds():
    clinic = load_study("clinic-scratch")
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


def check(rows: dict[str, float]) -> None:
    """What is sampled and learned has a rate, and no device is busier than it can be."""
    assert rows["rollouts: tokens written by the actor"] > 0
    assert rows["update: tokens in the loss"] > 0
    assert 0 < rows[f"{device.UTILISATION}, by a product of matrices here"] < 100
    assert rows["peak memory"] > 0.1


def test_a_small_run_in_float32(prepared, monkeypatch):
    monkeypatch.chdir(prepared)
    study = device.on_this_device(load_study(prepared / "small.yaml"), "transformers")
    rows = {finding.what: finding.middle for finding in device.measured(study, updates=1)}
    check(rows)
    assert rows[device.LARGEST] < 1e-4


@pytest.mark.long
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
    printed = json.loads(done.stdout)
    rows = {f["what"]: f["value"] for f in printed["findings"]}
    rows = {name: v["median"] if isinstance(v, dict) else v for name, v in rows.items()}
    check(rows)
    assert (printed["learner"], printed["dtype"]) == ("DeepSpeed, ZeRO 1", "bfloat16")
    # bfloat16 rounds: engine and learner differ, and more than in float32.
    assert 1e-4 < rows[device.LARGEST] < 1


def test_a_study_without_models_is_told_in_a_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="2"):
        device.main(["--study", "clinic"])
    assert "error: " in capsys.readouterr().err
