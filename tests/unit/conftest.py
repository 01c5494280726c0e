"""What several tests of the jobs start from."""

import pytest
from helpers import make_tokenizer, tiny_model
from small_runs import small_study

from data_prep.clinic.build import build_clinic
from pcqc.jobs import sft as sft_job
from pcqc.models import save_model
from pcqc.paths import Paths


@pytest.fixture(scope="session")
def prepared(tmp_path_factory):
    """A folder with cases, base model and fine-tuned models."""
    folder = tmp_path_factory.mktemp("study")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        study = small_study(folder)
        build_clinic(study)
        tokenizer = make_tokenizer()
        save_model(Paths.of(study).model("base"), tiny_model(0, len(tokenizer)), tokenizer)
        sft_job.run_sft(study)
    return folder
