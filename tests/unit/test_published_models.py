"""The published models are the ones that the card describes, and as sound as it says."""

import re

import pytest
from model_card import CARD, MODELS, percentages

from pcqc.cases.chat import ChatFormat
from pcqc.models.folder import load_tokenizer
from pcqc.models.pretrained import install, locate
from pcqc_base.errors import UserError
from pcqc_base.settings import Pretrained
from pcqc_base.system.checkout import ROOT
from pcqc_base.system.files import sha256_file
from pcqc_clinic.pretrain import validate
from pcqc_clinic.world import make_world
from pcqc_study.study_file import load_study


def test_the_card_has_every_models_digest():
    listed = dict(re.findall(r"\| `(\S+)` \| .* \| `([0-9a-f]{64})` \|", CARD))
    files = (ROOT / "models").glob("*/*/model.safetensors")
    assert listed == {f"{p.parts[-3]}/{p.parts[-2]}": sha256_file(p) for p in files}


def test_the_studies_name_them_by_their_digests():
    quick, full = (load_study(name).models for name in ("clinic", "clinic-full"))
    assert quick.actor == full.scorer
    for source in (full.actor, full.patient, full.scorer):
        assert source.sha256 == sha256_file(locate(source) / "model.safetensors")


def test_other_weights_than_the_study_names_are_refused():
    with pytest.raises(UserError, match=r"base/model\.safetensors: not the weights that the study"):
        locate(Pretrained("models/clinic-1/base", sha256="0" * 64))


@pytest.mark.parametrize("name", MODELS)
def test_the_base_model_is_as_sound_as_its_card_says(name, tmp_path):
    from transformers import AutoModelForCausalLM

    study = load_study("clinic")
    install(Pretrained(f"models/{name}/base"), tmp_path / "base")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "base").eval()
    chat = ChatFormat(load_tokenizer(tmp_path / "base"), study.clinic.instruction)
    scores = validate(make_world(study.clinic), chat, model, seed=int(name[-1]))
    # Another processor rounds otherwise, which may turn one or two of 500 answers.
    expected = [figure for row in ROWS for figure in percentages(row, name)]
    assert [100 * scores[score] for score in SCORES] == pytest.approx(expected, abs=0.5)
    assert scores["patient_accuracy"] >= 0.99
    assert scores["scorer_accuracy"] >= scores["bayes_accuracy"] - 0.05


ROWS = ("patient: answers right", "scorer: right, beside the exact posterior")
SCORES = ("patient_accuracy", "scorer_accuracy", "bayes_accuracy")
