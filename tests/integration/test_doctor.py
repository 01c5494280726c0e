"""`pcqc doctor`: no red line on the clinic, and one for each fault that only it would notice."""

from dataclasses import replace

import numpy as np
import pytest
from hand_made import finish_job, folder_of
from stub_server import Stub, completion

from pcqc.cli import main
from pcqc.errors import UserError
from pcqc.jobs.doctor import examine
from pcqc.models.folder import save_folder
from pcqc.study import Servers, load_study
from pcqc.study.models import Server

WORDS = 1000  # vocabulary of the stub


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def serve():
    """Starts a patient's server that draws evenly from its first `top_k` words; 0: from all."""
    stubs = []

    def start(top_k: int = 0) -> Stub:
        def reply(body, attempt):
            most = body.get("top_k", top_k) or WORDS
            drawn = np.random.default_rng(body["seed"]).random(body["max_tokens"]) * most
            return completion(drawn.astype(int).tolist())

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


def dead_server(serve):
    stub = serve()
    stub.close()
    return served(stub), "server patient", "check the server and rerun"


def other_sampling_defaults(serve):
    return served(serve(top_k=20)), "server patient", "restart it with --generation-config vllm"


def a_server_of_other_weights(serve):
    stub = serve()
    study = served(stub)
    model_folder(study, "patient")
    stub.served["root"] = str(model_folder(study, "actor", "other").resolve())
    return study, "server patient", "whose weights are not the role's; restart it with"


FAULTS = (dead_server, other_sampling_defaults, a_server_of_other_weights)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_fault_has_the_only_red_line(fault, serve, capsys):
    study, name, words = fault(serve)
    (line,) = red(study, capsys)
    assert line.startswith(f"RED   {name} ")
    assert words in line


def test_weights_that_are_missing_end_the_trial(capsys):
    study = replace(load_study("real"), placement=None, servers=Servers())
    with pytest.raises(UserError, match=r"learner: .*: no weights; run `pcqc base real`"):
        examine(study, "real")
    assert "RED   learner" in capsys.readouterr().out
