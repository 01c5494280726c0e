"""Which weights actor and patient have after SFT, wherever they start."""

import dataclasses
import shutil

import pytest
from hand_made import finish_job, folder_of
from helpers import changed, make_tokenizer, tiny_model
from real_data import prepare

from pcqc.models.folder import save_model
from pcqc_base.errors import UserError
from pcqc_base.settings import Pretrained
from pcqc_base.system.files import read_jsonl, sha256_file
from pcqc_study.graph import Jobs, latest
from pcqc_study.run_job import run_job


@pytest.fixture
def taught(study):
    """Run SFT with some settings; the digest of each role's weights, and the losses."""

    def run(study=study, **sft):
        study = dataclasses.replace(study, sft=dataclasses.replace(study.sft, batch_size=2, **sft))
        prepare(study)
        run_job(study, "sft")
        folders = [latest(study, "base") / "base"]
        folders += [latest(study, "sft") / role for role in ("actor", "patient")]
        weights = {path.name: sha256_file(path / "model.safetensors") for path in folders}
        rows = read_jsonl(latest(study, "sft") / "losses.jsonl")
        return weights, [row["loss"] for _, row in rows]

    return run


def test_the_patient_is_a_checkpoint_of_the_actors_training(taught):
    weights, losses = taught(epochs=2, patient_epochs=1)
    assert len(set(weights.values())) == 3
    assert len(losses) == 4
    assert losses[-1] < losses[0]
    shorter, first = taught(epochs=1, patient_epochs=1)
    assert shorter["actor"] == shorter["patient"] == weights["patient"]
    assert first == losses[:2]


def test_the_actors_limit_is_not_asked_of_the_patients_prompts(taught, study):
    study = changed(study, "protocol.response_tokens", 400)  # the patient's have 1,000 and more
    taught(study, epochs=1, patient_epochs=1)
    shorter = changed(study, "protocol.response_tokens", 10)
    longer = Jobs(study).cases("train").latest.parent
    shutil.copytree(longer, folder_of(shorter, "prepare", "train"), dirs_exist_ok=True)
    finish_job(shorter, "prepare", "train")
    with pytest.raises(UserError, match=r"over the protocol's 170; raise protocol\.response_"):
        run_job(shorter, "sft")


def test_a_patient_without_epochs_is_the_pretrained_model(taught, study):
    weights, _ = taught(epochs=1, patient_epochs=0)
    assert weights["actor"] != weights["patient"]
    assert weights["patient"] == weights["base"]


@pytest.mark.parametrize("patient_epochs", [1, 0])
def test_a_patient_of_its_own_weights_leaves_the_actor_alone(taught, study, patient_epochs):
    together, losses = taught(epochs=1, patient_epochs=1)
    apart = changed(changed(study, "name", "apart"), "models.patient", Pretrained("another"))
    for name, seed in (("base", 0), ("patient_base", 5)):
        save_model(folder_of(apart, "base") / name, tiny_model(seed=seed), make_tokenizer())
    finish_job(apart, "base")
    shutil.copytree(study.results / "data", apart.results / "data", symlinks=True)
    weights, again = taught(apart, epochs=1, patient_epochs=patient_epochs)
    assert (weights["actor"], again) == (together["actor"], losses)
    assert weights["patient"] != together["patient"]
    start = sha256_file(latest(apart, "base") / "patient_base" / "model.safetensors")
    assert (weights["patient"] == start) is (patient_epochs == 0)
