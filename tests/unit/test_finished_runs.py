"""`import pcqc`: a finished run as data frames, whole or as an archive has it."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import run_folders
import torch
from hand_made import finish_job
from transformers import AutoModelForCausalLM, AutoTokenizer

import pcqc
from pcqc.models.folder import save_model
from pcqc_base.errors import UserError
from pcqc_base.system.checkout import ROOT
from pcqc_base.system.manifest import LEFT_OUT


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A folder with three finished runs, which tests read."""
    folder = tmp_path_factory.mktemp("finished")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        run_folders.write_study(run_folders.make_study(), ["shared_sft", "pcqc", "grpo"], runs="A")
    return folder


@pytest.fixture
def run(finished, monkeypatch):
    monkeypatch.chdir(finished)
    return pcqc.load("results/clinic", "pcqc", "A")


def test_a_candidate_is_a_row_with_its_state_answer_and_credit(run):
    rows = run.candidates()
    assert len(rows) == 16  # four updates with one group of four
    first = rows[(rows["update"] == 1) & (rows["candidate"] == 0)].iloc[0]
    assert (first["question"], first["answer"], first["turn"]) == ("Any fever?", "Yes.", 2)
    assert (first["executed"], first["supervised"]) == (True, True)
    assert first["gain"] == pytest.approx(0.62 - 0.30)
    assert first["credit"] == pytest.approx((0.62 - 0.42) / 0.1467, abs=1e-3)


def test_the_credit_from_small_spreads_is_read_of_runs_that_did_not_log_it(run):
    """Every group has the spread 0.1467."""
    assert run.small_spread_share().to_dict() == {1: 0.0, 2: 0.0, 3: 0.0, 4: 0.0}
    assert run.small_spread_share(below=0.2).to_dict() == {1: 1.0, 2: 1.0, 3: 1.0, 4: 1.0}


def test_metrics_are_by_update_and_validations_have_rows_of_their_own(run):
    metrics = run.metrics()
    updates = metrics[metrics["kind"] == "update"]
    assert updates["update"].tolist() == [1, 2, 3, 4]
    assert updates["reward/mean"].iloc[0] == pytest.approx((1 + 1) / 8)
    assert metrics[metrics["kind"] == "validation"]["accuracy"].tolist() == [0.7]


def test_predictions_and_the_dialogue_of_a_case(run):
    predictions = run.predictions()
    assert predictions.groupby("benchmark").size().to_dict() == {"clinic_dev": 3, "clinic_wide": 3}
    dialogue = run.dialogue(predictions["case_id"].iloc[0])
    assert dialogue["turns"][0]["question"] == "Any fever?"
    with pytest.raises(UserError, match="no consultation on case 'x'; the first is on 'clinic_dev"):
        run.dialogue("x")


def test_runs_that_differ_nowhere_gain_nothing(run):
    compared = pcqc.compare(run, pcqc.load("results/clinic", "grpo", "A"))
    assert compared.index.tolist() == ["clinic_dev", "clinic_wide", "average"]
    assert compared["gain"].tolist() == [0.0, 0.0, 0.0]
    assert compared["cases"].tolist() == [3, 3, 6]


def test_what_a_run_does_not_have_is_said(run):
    sft, grpo = (pcqc.load("results/clinic", name, "A") for name in ("shared_sft", "grpo"))
    assert sft.metrics().empty
    for other in (sft, grpo):
        with pytest.raises(UserError, match="compares no candidates at a state; load a run of"):
            other.candidates()
    with pytest.raises(UserError, match="clinic/grpo/A: has no continuation study"):
        grpo.continuation()


@pytest.mark.parametrize(
    ("place", "message"),
    [
        (("results/clinc", "pcqc", "A"), "results/clinc: no such folder; name a study's results"),
        (("results/clinic", "pqcq", "A"), "no run of 'pqcq'; did you mean 'pcqc'?"),
        (("results/clinic", "pcqc", "Z"), "no run 'Z' of pcqc is evaluated; known are A"),
        (("results", "pcqc", "A"), "results: no run is evaluated there yet"),
    ],
)
def test_a_run_that_is_not_there_is_named_with_those_that_are(run, place, message):
    with pytest.raises(UserError) as raised:
        pcqc.load(*place)
    assert message in str(raised.value)


def test_a_continuation_has_the_share_of_right_ends_of_each_candidate(simulated_study, monkeypatch):
    monkeypatch.chdir(simulated_study)
    continued = pcqc.load("results/simulated", "pcqc", "A").continuation()
    continued = continued[continued["set"] == "main"]
    state = continued[continued["case_id"] == continued["case_id"].iloc[0]]
    assert state["gain"].tolist() == pytest.approx(list(state["utility"] - state["baseline"]))
    assert state["success"].between(0, 1).all()


def test_what_an_archive_left_out_is_named_with_the_command_that_makes_it(
    finished, tmp_path, monkeypatch
):
    shutil.copytree(finished / "results", tmp_path / "results", symlinks=True)
    monkeypatch.chdir(tmp_path)
    for kind, name in {"runs": "candidate_groups.jsonl", "evaluation": "clinic_wide.jsonl"}.items():
        folder = (Path("results/clinic") / kind / "pcqc/A/latest").resolve()
        (folder / name).unlink()
        (folder / LEFT_OUT).write_text(f'["{name}"]')
    run = pcqc.load("results/clinic", "pcqc", "A")
    with pytest.raises(UserError, match=r"groups\.jsonl: is not in .*; `pcqc train clinic pcqc A`"):
        run.candidates()
    with pytest.raises(
        UserError, match=r"wide\.jsonl: is not in .*; `pcqc evaluate clinic pcqc A`"
    ):
        list(run.dialogues("clinic_wide"))
    assert {row["case_id"].split("-")[0] for row in run.dialogues()} == {"clinic_dev"}
    assert len(run.predictions()) == 6


def test_a_run_is_told_in_three_lines(run):
    assert repr(run) == (
        "<Run clinic/pcqc/A, update 4 of 4\n right: clinic_dev 66.7 %, clinic_wide 66.7 %\n"
        f" in {run.folders['evaluate'].resolve()}>"
    )
    sft = pcqc.load("results/clinic", "shared_sft", "A")
    assert repr(sft).startswith("<Run clinic/shared_sft/A\n right: clinic_dev ")


def test_the_evaluated_doctor_is_loaded_or_named_where_an_archive_left_it_out(
    finished, tmp_path, monkeypatch
):
    shutil.copytree(finished / "results", tmp_path / "results", symlinks=True)
    monkeypatch.chdir(tmp_path)
    run = pcqc.load("results/clinic", "pcqc", "A")
    published, training = ROOT / "models" / "clinic-1" / "sft", run.training
    model = AutoModelForCausalLM.from_pretrained(published)
    save_model(run.weights, model, AutoTokenizer.from_pretrained(published))
    entries = {key: training[key] for key in ("updates", "checkpoints") if key in training}
    finish_job(run_folders.make_study(), "train", "pcqc", "A", entries=entries)
    loaded, tokenizer = run.model()
    text = tokenizer("Any red spots?", return_tensors="pt").to(loaded.device)
    logits = model(**text.to(model.device)).logits
    torch.testing.assert_close(loaded(**text).logits.cpu(), logits)
    names = [path.relative_to(run.folders["train"]) for path in run.weights.iterdir()]
    shutil.rmtree(run.weights)
    left_out = json.dumps([name.as_posix() for name in names])
    (run.folders["train"] / LEFT_OUT).write_text(left_out)
    with pytest.raises(UserError, match=r"is not in the archive of the study; `pcqc train clinic"):
        run.model()


def test_the_package_is_imported_without_what_is_slow_to_import():
    heavy = ("torch", "transformers", "mlflow", "pandas", "scipy")
    code = (
        f"import sys, pcqc; early = any(m in sys.modules for m in {heavy}); "
        "pcqc.load; sys.exit(early or 'torch' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
