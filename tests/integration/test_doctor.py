"""`pcqc doctor`: no red line on the clinic, and one for each fault that only it would notice."""

from dataclasses import replace

import pytest
from hand_made import finish_job, folder_of
from stub_server import Stub, completion

from pcqc.models.folder import save_folder
from pcqc_base.errors import UserError
from pcqc_base.settings import Servers
from pcqc_base.settings.models import Server
from pcqc_gpu import doctor
from pcqc_gpu.doctor import examine
from pcqc_study.cli import main
from pcqc_study.study_file import load_study


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def stub():
    """A patient's server."""
    stub = Stub(lambda body, attempt: completion([1]))
    yield stub
    stub.close()


def served(stub):
    """The clinic with that patient."""
    return replace(load_study("clinic"), servers=Servers(patient=Server(stub.url)))


def model_folder(study, role, text="weights"):
    def write(temporary):
        (temporary / "model").write_text(text)

    folder = folder_of(study, "sft") / role
    save_folder(folder, write)
    finish_job(study, "sft")
    return folder


def red(study, capsys) -> list[str]:
    """The red lines; none of the trial is tried after them."""
    with pytest.raises(UserError):
        examine(study, "x")
    lines = capsys.readouterr().out.splitlines()
    assert not any("learner" in line for line in lines)
    return [line for line in lines if line.startswith("RED")]


def test_no_line_is_red_on_the_clinic_before_anything_is_made(capsys):
    assert main(["doctor", "clinic"]) == 0
    lines = capsys.readouterr().out.splitlines()
    names = ["plan", "learner", "engines", "one turn", "optimiser step"]
    assert [line[:23].rstrip() for line in lines] == [
        *(f"ok    {name}" for name in names),
        "ready for clinic",
    ]


def dead_server(stub):
    stub.close()
    return served(stub), "server patient", "start the server, or correct the study's 'servers'"


def a_server_of_other_weights(stub):
    study = served(stub)
    model_folder(study, "patient")
    stub.served["root"] = str(model_folder(study, "actor", "other").resolve())
    return study, "server patient", "whose weights are not the role's; restart it with"


FAULTS = (dead_server, a_server_of_other_weights)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_fault_has_the_only_red_line(fault, stub, capsys):
    study, name, words = fault(stub)
    (line,) = red(study, capsys)
    assert line.startswith(f"RED   {name} ")
    assert words in line


def test_a_study_on_gpus_is_refused_without_one(capsys, monkeypatch):
    monkeypatch.setattr(doctor, "require_fit", lambda study: None)
    assert red(load_study("real"), capsys)[0].startswith("RED   device ")


def test_weights_that_are_missing_end_the_trial(capsys):
    study = replace(load_study("real"), placement=None, servers=Servers())
    with pytest.raises(UserError, match=r"learner: .*: no weights; run `pcqc base real`"):
        examine(study, "real")
    assert "RED   learner" in capsys.readouterr().out
