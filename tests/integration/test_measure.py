"""What a study's updates reach here: the arithmetic by hand, and a small run measured."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from small_runs import small_study

from pcqc.training.batching import SelectedTokens
from pcqc.training.token_trees import merge_prefixes
from pcqc_base.errors import UserError
from pcqc_base.system.files import read_json
from pcqc_gpu import measure
from pcqc_gpu.planning.architecture import Architecture, update_passes
from pcqc_gpu.planning.hours import run_hours
from pcqc_study.cli import main
from pcqc_study.study_file import load_study

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


def test_a_small_run_is_measured_and_its_plan_has_hours(study, capsys):
    assert main(["doctor", "small.yaml", "--measure", "1"]) == 0
    assert "`pcqc plan small` now has this method's hours" in capsys.readouterr().out
    record = read_json(Path("results/small/measured/pcqc.json"))
    middle = record["measured"]
    assert min(middle["rate/actor"], middle["rate/update"]) > 0
    assert 0 < middle["gap/max"] < 1e-4
    # Nothing is faster than a large product of matrices.
    assert all(0 < share < 1 for share in measure.utilisations(record).values())
    assert record["peak_gib"] > 0.1
    parts = ("engines", "rest", "update")
    assert middle["seconds/whole"] >= sum(middle[f"seconds/{part}"] for part in parts)
    assert not list(Path("results/small").glob("measure-*"))  # nothing else is left
    hours = run_hours(study, "pcqc")["hours"] * 3600
    assert hours > study.method("pcqc").updates * middle["seconds/whole"]
    assert main(["plan", "small.yaml"]) == 0
    assert f"{run_hours(study, 'pcqc')['device_hours']:,.2f}" in capsys.readouterr().out


def test_what_cannot_be_measured_is_told_in_a_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["doctor", "clinic", "--measure"]) == 2
    assert capsys.readouterr().err.startswith("pcqc: error: updates: results/clinic/")
    study = load_study("clinic")
    untrained = dataclasses.replace(study, methods={"shared_sft": study.method("shared_sft")})
    with pytest.raises(UserError, match="trains nothing, so there is nothing to measure"):
        measure.usual_method(untrained)
    assert main(["doctor", "clinic", "--measure", "--method", "gpro"]) == 2
    assert "study 'clinic' trains no 'gpro'; did you mean 'grpo'?" in capsys.readouterr().err
    assert main(["doctor", "clinic", "--method", "grpo"]) == 2
    assert capsys.readouterr().err == "pcqc: error: --method goes with --measure; add it\n"
