import shutil
from pathlib import Path

import pytest
from once import once
from run_folders import make_study, write_study

from pcqc_study.mlflow_mirror import open_store as store
from pcqc_study.mlflow_mirror import prepare

METHODS = ["shared_sft", "grpo", "pcqc"]


@pytest.fixture(scope="session")
def prepared(tmp_path_factory):
    """A folder with finished runs and an empty, migrated database, made once for all tests."""

    def make(folder):
        folder.mkdir()
        with pytest.MonkeyPatch.context() as patch:
            patch.delenv("MLFLOW_TRACKING_URI", raising=False)
            patch.chdir(folder)
            write_study(make_study(), METHODS)
            store.load_mlflow(make_study())
            prepare._migrate(make_study(), Path("results/mlflow.db"))

    return once(tmp_path_factory, "tracked", make)


@pytest.fixture
def study(prepared, tmp_path, monkeypatch):
    """A study with finished runs below the working directory, not yet prepared."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    shutil.copytree(prepared / "results" / "clinic", tmp_path / "results" / "clinic", symlinks=True)
    monkeypatch.chdir(tmp_path)
    return make_study()


@pytest.fixture
def ready(prepared, study):
    """The same study with its store prepared."""
    shutil.copy(prepared / "results" / "mlflow.db", "results/mlflow.db")
    prepare.describe_study(study)
    return study
