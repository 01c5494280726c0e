"""`pcqc doctor`: no red line on the clinic, and one for each fault that only it would notice."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from hand_made import finish_job, folder_of
from stub_server import Stub, completion

from pcqc.cli import main
from pcqc.errors import UserError
from pcqc.jobs import doctor
from pcqc.jobs.doctor import examine
from pcqc.models.folder import save_folder
from pcqc.settings import Servers, load_study
from pcqc.settings.models import Server


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


@pytest.fixture
def gpu_machine(tmp_path, monkeypatch):
    """Makes a fake vLLM linked to a version of CUDA's runtime, a torch, and a driver."""

    def make(linked, cuda, driver):
        (tmp_path / "_C.abi3.so").write_bytes(b"\x7fELF\0" + linked.encode() + b"\0libc.so.6\0")
        spec = SimpleNamespace(submodule_search_locations=[str(tmp_path)])
        monkeypatch.setattr(doctor, "find_spec", lambda name: spec)
        monkeypatch.setattr(torch.version, "cuda", cuda)
        monkeypatch.setattr(doctor, "DRIVER", tmp_path / "version")
        if driver:
            doctor.DRIVER.write_text(
                f"NVRM version: NVIDIA UNIX {driver}  Release Build\nGCC 12.3\n"
            )

    return make


CUDA_13 = "libcudart.so.13"


@pytest.mark.parametrize(
    "driver", ["x86_64 Kernel Module  580.65.06", "Open Kernel Module for x86_64  595.10"]
)
def test_a_gpu_machine_whose_parts_go_together_passes(gpu_machine, driver):
    gpu_machine(CUDA_13, "13.0", driver)
    assert doctor._cuda() == f"CUDA 13.0, driver {driver.split()[-1].split('.')[0]}"


@pytest.mark.parametrize(
    ("linked", "cuda", "driver", "words"),
    [
        ("libgomp.so.1", "13.0", "Kernel Module  580.65", "is the one for CPUs; run `make gpu`"),
        (
            CUDA_13,
            "12.8",
            "Kernel Module  580.65",
            r"libcudart\.so\.13\), but torch is .* for 12\.8",
        ),
        (CUDA_13, None, "Kernel Module  580.65", "but torch is built for None"),
        (CUDA_13, "13.0", "Kernel Module  570.124", "at least 580; here is 570"),
        (CUDA_13, "13.0", "Open Kernel Module for x86_64  570.1", "at least 580; here is 570"),
        (CUDA_13, "13.0", None, "at least 580; here is none"),
    ],
)
def test_a_gpu_machine_whose_parts_do_not_is_refused(gpu_machine, linked, cuda, driver, words):
    gpu_machine(linked, cuda, driver)
    with pytest.raises(UserError, match=words):
        doctor._cuda()


def test_a_study_on_gpus_has_a_line_on_cuda(capsys, monkeypatch):
    monkeypatch.setattr(doctor, "require_fit", lambda study: None)
    assert red(load_study("real"), capsys)[0].startswith("RED   CUDA ")


def test_weights_that_are_missing_end_the_trial(capsys):
    study = replace(load_study("real"), placement=None, servers=Servers())
    with pytest.raises(UserError, match=r"learner: .*: no weights; run `pcqc base real`"):
        examine(study, "real")
    assert "RED   learner" in capsys.readouterr().out
