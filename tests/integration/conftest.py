"""What several tests of the jobs start from."""

import shutil

import pytest
from hand_made import finish_job, folder_of
from helpers import SECRET_ADDRESS, make_tokenizer, tiny_model
from small_runs import small_study

from pcqc.jobs.run_job import run_job
from pcqc.models.folder import save_model


@pytest.fixture(scope="session")
def prepared(tmp_path_factory):
    """A folder with cases, base model and fine-tuned models."""
    folder = tmp_path_factory.mktemp("study")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        study = small_study(folder)
        run_job(study, "clinic")
        tokenizer = make_tokenizer()
        save_model(folder_of(study, "base") / "base", tiny_model(0, len(tokenizer)), tokenizer)
        finish_job(study, "base")
        run_job(study, "sft")
    return folder


@pytest.fixture
def study(request, prepared, tmp_path, monkeypatch):
    """The test module's study (`make_study`) with cases and models, in a folder of its own."""
    shutil.copytree(prepared / "results", tmp_path / "results", symlinks=True)
    monkeypatch.chdir(tmp_path)
    return request.module.make_study(tmp_path)


@pytest.fixture(scope="module")
def finished(request, prepared, tmp_path_factory):
    """Results in which the module's run (`METHOD`, `RUN`) was made from end to end unbroken."""
    module, folder = request.module, tmp_path_factory.mktemp("finished")
    shutil.copytree(prepared / "results", folder / "results", symlinks=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("MLFLOW_TRACKING_URI", SECRET_ADDRESS)
        study = module.make_study(folder)
        for kind in ("train", "select", "evaluate"):
            run_job(study, kind, module.METHOD, module.RUN)
    return folder / "results" / "small"
