"""What several tests of the jobs start from, made once for all of them."""

import shutil
from contextlib import chdir

import pytest
from hand_made import finish_job, folder_of, make_cases
from helpers import SECRET_ADDRESS, make_tokenizer, tiny_model
from once import once
from small_runs import small_study
from stub_server import Stub

from pcqc.models.folder import save_model
from pcqc_study.run_job import run_job


@pytest.fixture(scope="session")
def prepared(tmp_path_factory):
    """A folder with cases, base model and fine-tuned models."""

    def make(folder):
        folder.mkdir()
        with chdir(folder):
            study = small_study(folder)
            tokenizer = make_tokenizer()
            save_model(folder_of(study, "base") / "base", tiny_model(0, len(tokenizer)), tokenizer)
            finish_job(study, "base")
            make_cases(study)
            run_job(study, "sft")

    return once(tmp_path_factory, "prepared", make)


@pytest.fixture(scope="session")
def finished(prepared, tmp_path_factory):
    """Results of the small study in which run A of PCQC was made from end to end unbroken."""

    def make(folder):
        shutil.copytree(prepared, folder, symlinks=True)
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            patch.setenv("MLFLOW_TRACKING_URI", SECRET_ADDRESS)
            for kind in ("train", "select", "evaluate"):
                run_job(small_study(folder), kind, "pcqc", "A")

    return once(tmp_path_factory, "finished", make) / "results" / "small"


@pytest.fixture
def use_results(tmp_path, monkeypatch):
    """Copies results of the small study into the test's own working directory."""

    def copy(results):
        shutil.copytree(results, tmp_path / "results" / "small", symlinks=True)
        monkeypatch.chdir(tmp_path)

    return copy


@pytest.fixture
def study(request, prepared, use_results, tmp_path):
    """The test module's study (`make_study`) with cases and models, in a folder of its own."""
    use_results(prepared / "results" / "small")
    return request.module.make_study(tmp_path)


@pytest.fixture
def serve():
    """Starts stubs, and stops them after the test."""
    stubs = []

    def start(reply) -> Stub:
        stubs.append(Stub(reply))
        return stubs[-1]

    yield start
    for stub in stubs:
        stub.close()
