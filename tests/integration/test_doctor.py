"""`pcqc doctor`: all green on the clinic, and one red line for each thing that is sabotaged."""

import json
from collections import namedtuple
from dataclasses import replace

import numpy as np
import pytest
from stub_server import Stub, said

from pcqc.cli import main
from pcqc.doctor import machine as machine_module
from pcqc.doctor.findings import tried
from pcqc.doctor.machine import GPU_CHECKS, machine
from pcqc.doctor.services import services
from pcqc.models.folder import save_folder
from pcqc.study import Servers, load_study
from pcqc.study.models import Server
from pcqc.study.paths import Paths

Usage = namedtuple("Usage", "total used free")
WORDS = 1000  # vocabulary of the stub


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """A folder of one's own, on a machine whose memory nobody else uses."""
    monkeypatch.chdir(tmp_path)
    have_memory(monkeypatch, 64)


def have_memory(monkeypatch, gib: int) -> None:
    machine_module.Path("meminfo").write_text(f"MemAvailable: {gib * 2**20} kB\n")
    monkeypatch.setattr(machine_module, "MEMINFO", machine_module.Path("meminfo"))
    monkeypatch.setattr(machine_module, "CGROUP", machine_module.Path("no-cgroup"))


@pytest.fixture
def serve():
    """Starts a patient's server that draws evenly from its first `top_k` words; 0: from all."""
    stubs = []

    def start(top_k: int = 0) -> Stub:
        def reply(body, attempt):
            most = body.get("top_k", top_k) or WORDS
            drawn = np.random.default_rng(body["seed"]).random(body["max_tokens"]) * most
            return said(drawn.astype(int).tolist())

        stubs.append(Stub(reply))
        return stubs[-1]

    yield start
    for stub in stubs:
        stub.close()


def served(stub):
    """The clinic with that patient."""
    return replace(load_study("clinic"), servers=Servers(patient=Server(stub.url)))


def model_folder(study, role, text="weights"):
    def write(temporary):
        (temporary / "model").write_text(text)

    folder = Paths.of(study).model(role)
    save_folder(folder, write)
    return folder


def red(study):
    """Name -> the line, of all red lines before the trial."""
    found = [*machine(study), *services(study)]
    return {one.name: one.line for one in found if one.remedy}


def test_all_lines_are_green_on_the_clinic_before_anything_is_made(capsys):
    assert main(["doctor", "clinic"]) == 0
    lines = capsys.readouterr().out.splitlines()
    skipped = [line.split()[1] for line in lines if line.startswith("skip")]
    assert skipped == list(GPU_CHECKS)
    assert not [line for line in lines if line.startswith("RED")]
    for name in ("host memory", "model base", "MLflow", "new weights", "optimiser step"):
        assert any(line.startswith(f"ok    {name} ") for line in lines)
    assert lines[-1].startswith("ready for clinic")


def test_a_server_as_documented_and_its_weights_are_green(serve):
    stub = serve()
    study = served(stub)
    stub.served["root"] = str(model_folder(study, "patient").resolve())
    assert red(study) == {}


def no_space(study, monkeypatch, serve):
    monkeypatch.setattr("shutil.disk_usage", lambda path: Usage(10**9, 10**9, 0))
    return study, "disk", "0.00 GiB free, 0.04 needed; to mend: free some"


def slow_disk(study, monkeypatch, serve):
    clock = iter([0.0, 1e6])
    monkeypatch.setattr(machine_module.time, "perf_counter", lambda: next(clock))
    return study, "write speed", "use a disk that takes a resumable state in 600 s"


def unwritable_disk(study, monkeypatch, serve):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(machine_module.os, "fsync", full)
    return study, "write speed", "to mend: free"


def small_shared_memory(study, monkeypatch, serve):
    monkeypatch.setattr("shutil.disk_usage", lambda path: Usage(2**40, 0, 2**40))
    usage = machine_module.shutil.disk_usage
    monkeypatch.setattr(
        "shutil.disk_usage",
        lambda path: Usage(2**10, 0, 2**10) if path == machine_module.MEMORY else usage(path),
    )
    return load_study("clinic-mini-engines"), "/dev/shm", "start the container with --shm-size=1g"


def little_memory(study, monkeypatch, serve):
    have_memory(monkeypatch, 1)
    return study, "host memory", "1.00 GiB available, "


def dead_server(study, monkeypatch, serve):
    stub = serve()
    stub.close()
    return served(stub), "server patient", "check the server and rerun"


def other_sampling_defaults(study, monkeypatch, serve):
    return served(serve(top_k=20)), "server patient", "restart it with --generation-config vllm"


def a_server_of_other_weights(study, monkeypatch, serve):
    stub = serve()
    study = served(stub)
    model_folder(study, "patient")
    stub.served["root"] = str(model_folder(study, "actor", "other").resolve())
    return study, "server patient", "whose weights are not the role's; to mend: restart it with"


def altered_weights(study, monkeypatch, serve):
    (model_folder(study, "actor") / "model").write_text("altered")
    return study, "model actor", "corrupted (its digest differs); to mend: remove"


def weights_that_are_not_here(study, monkeypatch, serve):
    study = load_study("real-smoke")
    actor = replace(study.models.actor, gguf=None, source="../nowhere/SmolLM2-135M")
    study = replace(study, models=replace(study.models, actor=actor))
    return study, "model base", "to mend: fix the study's 'models'"


def a_store_that_is_no_database(study, monkeypatch, serve):
    machine_module.Path("results").mkdir()
    machine_module.Path("results/mlflow.db").write_text("no database" * 100)
    return study, "MLflow", "file is not a database; to mend: start it, or correct tracking.uri"


SABOTAGES = (
    no_space,
    slow_disk,
    unwritable_disk,
    small_shared_memory,
    little_memory,
    dead_server,
    other_sampling_defaults,
    a_server_of_other_weights,
    altered_weights,
    weights_that_are_not_here,
    a_store_that_is_no_database,
)


@pytest.mark.parametrize("sabotage", SABOTAGES, ids=lambda one: one.__name__)
def test_what_is_sabotaged_has_the_only_red_line(sabotage, monkeypatch, serve):
    study, name, words = sabotage(load_study("clinic"), monkeypatch, serve)
    lines = red(study)
    assert list(lines) == [name]
    assert words in lines[name]


def test_a_study_on_gpus_is_red_without_one(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    monkeypatch.setattr("shutil.which", lambda name: None)
    lines = red(load_study("real"))
    assert set(GPU_CHECKS) - {"torch"} <= set(lines)
    assert "run `make gpu`" in lines["driver"]
    assert "install gcc and python3-dev" in lines["compiler"]
    assert "0 devices, 1 needed" in lines["devices"]
    assert "pcqc models STUDY --download" in lines["model base"]


def test_a_red_line_ends_the_command_before_the_trial(monkeypatch, capsys):
    monkeypatch.setattr("shutil.disk_usage", lambda path: Usage(10**9, 10**9, 0))
    assert main(["doctor", "clinic"]) == 2
    out, err = capsys.readouterr()
    assert "skip  trial" in out
    assert err == (
        "pcqc: error: 1 line is red; mend what they say, then run `pcqc doctor clinic` again\n"
    )


def test_any_error_of_a_check_is_a_red_line():
    found = tried("step", lambda: json.loads("{"))
    assert found.line.startswith("RED   step              JSONDecodeError: Expecting property name")
    assert found.remedy
