"""What a study's updates reach here: the arithmetic by hand, and a small run measured."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from small_runs import small_study

from pcqc.errors import UserError
from pcqc.system.files import read_json
from pcqc.training.batching import SelectedTokens
from pcqc.training.token_trees import merge_prefixes
from pcqc_gpu import measure
from pcqc_gpu.planning.architecture import Architecture
from pcqc_gpu.planning.cost import update_passes
from pcqc_gpu.planning.devices import named
from pcqc_gpu.planning.storage import sync_gib
from pcqc_study.cli import main
from pcqc_study.settings import load_study

make_study = small_study
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
    assert measure.update_flops(shape, trees, passes=4) == 4 * (matrices + attention + output)


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


def seconds_and_flops(**changes: float) -> dict[str, float]:
    """What an update took on a core, whose peak in a plan is 5e10 FLOP/s."""
    roles = {f"flops/{r}_{w}": 0.0 for r in ("actor", "patient", "scorer") for w in WAYS}
    own = {"flops/actor_written": 1e9, "flops/patient_read": 4e9, "seconds/engines": 0.8}
    update = {"flops/update_with_recomputation": 1e10, "seconds/update": 0.5}
    return roles | own | update | {"seconds/sync": 0.25} | changes


WAYS = ("written", "read")


def test_rates_by_hand(monkeypatch):
    """At a tenth of the peak 0.2 s of writing, at two fifths 0.2 s of reading: it took twice that.

    The learner's 10 GFLOP took 0.5 s, of which the peak needs 0.2.
    """
    monkeypatch.setattr(measure, "gpu_name", lambda: None)
    rates = measure._rates(load_study("clinic"), seconds_and_flops())
    assert rates == pytest.approx(
        {
            "update_utilisation": 0.4,
            "decoding_utilisation": 0.05,
            "scoring_utilisation": 0.2,
            "full_batches": 1.0,
        }
    )
    # More than the plan's peak is the peak.
    fast = measure._rates(load_study("clinic"), seconds_and_flops(**{"seconds/update": 0.1}))
    assert fast["update_utilisation"] == 1.0


def test_rates_of_several_processes_are_of_each(monkeypatch):
    """Two processes do the same FLOPs in the same time; weights go by files and are read again."""
    monkeypatch.setattr(measure, "gpu_name", lambda: None)
    study = load_study("clinic-mini-engines")
    rates = measure._rates(study, seconds_and_flops())
    assert rates["update_utilisation"] == pytest.approx(0.2)
    assert rates["decoding_utilisation"] == pytest.approx(0.025)
    assert rates["sync_gib_per_second"] == pytest.approx(2 * sync_gib(study) / 0.25)
    # On a GPU they go by handles, once.
    monkeypatch.setattr(measure, "gpu_name", lambda: "NVIDIA H200")
    study = load_study("real-smoke-gpu")
    rates = measure._rates(study, seconds_and_flops())
    assert "sync_gib_per_second" not in rates
    assert rates["handles_gib_per_second"] == pytest.approx(sync_gib(study) / 0.25)


def test_a_gpu_that_the_plan_does_not_know_has_no_rates(monkeypatch):
    monkeypatch.setattr(measure, "gpu_name", lambda: "Tesla T4")
    assert measure._rates(load_study("clinic"), seconds_and_flops()) == {}


def test_a_small_run_is_measured_and_its_plan_reads_the_rates(study, capsys):
    assert main(["doctor", "small.yaml", "--measure", "1"]) == 0
    shown = capsys.readouterr().out
    assert "`pcqc plan results/small/rates.yaml` counts with these rates" in shown
    record = read_json(Path("results/small/measured.json"))
    middle = record["measured"]
    assert min(middle["rate/actor"], middle["rate/update"]) > 0
    assert 0 < middle["gap/max"] < 1e-4
    # Nothing is faster than a large product of matrices.
    assert all(0 < share < 1 for share in measure.utilisations(record).values())
    assert record["peak_gib"] > 0.1
    assumed = load_study("results/small/rates.yaml").assumptions
    assert record["rates"].keys() >= {"update_utilisation", "start_seconds"}
    for name, rate in record["rates"].items():
        assert getattr(assumed, name) == pytest.approx(rate, rel=1e-3)
    # The rest is the study's; no file is left in its results.
    own = dataclasses.asdict(study.assumptions)
    assert all(getattr(assumed, n) == own[n] for n in own.keys() - record["rates"].keys())
    assert not list(Path("results/small").glob("measure-*"))
    assert main(["plan", "results/small/rates.yaml"]) == 0


def test_what_cannot_be_measured_is_told_in_a_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["doctor", "clinic", "--measure"]) == 2
    assert capsys.readouterr().err.startswith("pcqc: error: updates: results/clinic/")
    study = load_study("clinic")
    untrained = dataclasses.replace(study, methods={"shared_sft": study.method("shared_sft")})
    with pytest.raises(UserError, match="trains nothing, so there is nothing to measure"):
        measure._method(untrained)
