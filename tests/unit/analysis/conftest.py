"""A simulated study on disk, shared by the tests of the analysis."""

import shutil
from contextlib import chdir
from dataclasses import replace

import pytest
import simulated
from hand_made import finish_job

from analysis import archive
from analysis.collected import Collected
from analysis.load import load
from analysis.published import published


@pytest.fixture(scope="session")
def study_folder(tmp_path_factory, simulated_study):
    """A folder with `results/simulated/`, in which tests may write beside it."""
    folder = tmp_path_factory.mktemp("study") / "copy"
    return shutil.copytree(simulated_study, folder, symlinks=True)


@pytest.fixture
def copied(study_folder, tmp_path, monkeypatch):
    """What was collected of the study, in a copy that a test may change."""
    shutil.copytree(study_folder / "results", tmp_path / "results", symlinks=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "results" / "simulated" / "collected" / "latest"


@pytest.fixture
def reloaded(copied):
    """Loads the copy as if it had been collected as it is now."""

    def reload():
        study = simulated.load_study(simulated.STUDY)
        finish_job(study, "collect")
        return load(study)

    return reload


@pytest.fixture(scope="session")
def loaded(study_folder):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(study_folder)
        return load(simulated.load_study(simulated.STUDY))


@pytest.fixture
def collected(loaded, study_folder, monkeypatch):
    """The simulated study as the analysis reads it, from its folder; loaded once."""
    monkeypatch.chdir(study_folder)
    return loaded


@pytest.fixture(scope="session")
def archived(loaded, study_folder, tmp_path_factory):
    """The simulated study's archive; tests read it."""
    folder = tmp_path_factory.mktemp("archive")
    with chdir(study_folder):
        (path,) = archive.write(loaded.study, folder, released=False)
    return path


@pytest.fixture(scope="session")
def report_text(reported):
    """The simulated study's report, made with a password in the address of MLflow."""
    return (reported / "report.html").read_text(encoding="utf-8")


@pytest.fixture
def comparable(collected):
    """The same runs under the paper's benchmark names, as those of a study on real cases."""
    names = dict(zip(collected.benchmarks, published().benchmarks, strict=True))
    study = replace(
        collected.study,
        synthetic=False,
        clinic=None,
        benchmarks={names[name]: b for name, b in collected.benchmarks.items()},
    )
    frame = collected.predictions.replace({"benchmark": names})
    own = {new: old for old, new in names.items()}
    return Collected(
        study,
        frame,
        collected.updates,
        collected.records,
        dialogues=lambda method, run, name: collected.dialogues(method, run, own[name]),
    )
