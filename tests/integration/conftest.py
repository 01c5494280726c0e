"""What several tests of the jobs start from."""

import shutil

import pytest
from helpers import SECRET_ADDRESS, make_tokenizer, tiny_model
from small_runs import small_study

from pcqc.jobs import sft as sft_job
from pcqc.jobs.clinic import run_clinic
from pcqc.jobs.evaluate import run_evaluation
from pcqc.jobs.rl_loop import run_training
from pcqc.jobs.select import run_selection
from pcqc.models.folder import save_model
from pcqc.study.job_outputs import job_output
from pcqc.study.paths import Paths


@pytest.fixture(scope="session")
def prepared(tmp_path_factory):
    """A folder with cases, base model and fine-tuned models."""
    folder = tmp_path_factory.mktemp("study")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        study = small_study(folder)
        run_clinic(study)
        tokenizer = make_tokenizer()
        save_model(Paths.of(study).model("base"), tiny_model(0, len(tokenizer)), tokenizer)
        job_output(study, "pretrain").finish(["base/manifest.json"])
        sft_job.run_sft(study)
    return folder


@pytest.fixture
def study(request, prepared, tmp_path, monkeypatch):
    """The test module's study (`make_study`) with cases and models, in a folder of its own."""
    shutil.copytree(prepared / "results", tmp_path / "results")
    monkeypatch.chdir(tmp_path)
    return request.module.make_study(tmp_path)


@pytest.fixture(scope="module")
def finished(request, prepared, tmp_path_factory):
    """Results in which the module's run (`METHOD`, `RUN`) was made from end to end unbroken."""
    module, folder = request.module, tmp_path_factory.mktemp("finished")
    shutil.copytree(prepared / "results", folder / "results")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("MLFLOW_TRACKING_URI", SECRET_ADDRESS)
        study = module.make_study(folder)
        for job in (run_training, run_selection, run_evaluation):
            job(study, module.METHOD, module.RUN)
    return folder / "results" / "small"
