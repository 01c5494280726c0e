"""`pcqc serve`: servers in the place of engines, and that none of them is left behind."""

import itertools
import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace

import psutil
import pytest
import torch
import urllib3
from helpers import free_port, make_tokenizer, tiny_model
from stub_server import Stub, completion
from workplace import complaint

from benchmarks.kernels import config_of
from pcqc.models.folder import save_model
from pcqc_base.errors import UserError
from pcqc_base.settings import EnginePlacement, Servers
from pcqc_base.settings.models import Server
from pcqc_gpu import serve as serving
from pcqc_gpu.planning.architecture import architecture
from pcqc_gpu.planning.devices import DEVICES, GIB
from pcqc_gpu.planning.memory import engine_memory, engines
from pcqc_gpu.serve import serve
from pcqc_study.study_file import load_study

# In bytes per sequence and word: logits, sorted logits, their order, probabilities, their sums.
SAMPLER = 4 + 4 + 8 + 4 + 4


SLOW = """
import signal, sys, time
def end(number, frame):
    time.sleep(1)
    print("ended", flush=True)
    sys.exit(3)
signal.signal(signal.SIGINT, end)
signal.signal(signal.SIGTERM, end)
print("begun", flush=True)
time.sleep(60)
"""
BESIDE = """
import signal, sys
from pcqc_gpu.serve import _beside
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
sys.exit(_beside(sys.argv[1:]))
"""


@pytest.fixture
def servers(copy):
    """Names servers in the copy's study; gives their addresses."""

    def name(*roles: str) -> list[str]:
        urls = [f"http://127.0.0.1:{free_port()}" for _ in roles]
        named = {role: {"url": url} for role, url in zip(roles, urls, strict=True)}
        settings = copy.folder / "config" / "studies" / "clinic-mini.yaml"
        settings.write_text(f"{settings.read_text()}\nservers: {json.dumps(named)}\n")
        return urls

    return name


@contextmanager
def served(copy):
    """The command that serves, once its servers answer; nothing beneath it outlives the block."""
    command = copy.cold().command("serve", "clinic-mini")
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(command, cwd=copy.folder, env=copy.environment(), **pipes)
    beneath: list[psutil.Process] = []
    try:
        assert any(line.startswith("Ctrl-C") for line in process.stdout)
        beneath = psutil.Process(process.pid).children(recursive=True)
        yield process, beneath
    finally:
        for each in [*beneath, psutil.Process(process.pid)] if process.poll() is None else beneath:
            if each.is_running():
                each.kill()
        process.communicate()


@pytest.mark.slow  # vLLM starts
def test_a_command_runs_beside_servers_that_end_with_it(copy, servers):
    """`pcqc doctor` compares their weights, and its trial asks them; its status is passed on."""
    (url,) = servers("patient")
    script = "pcqc doctor clinic-mini && exit 7"
    done = copy.cold().typed(f"pcqc serve clinic-mini -- sh -c '{script}'")
    assert done.returncode == 7, done.stderr[-3000:]
    patient = (copy.results / "models" / "sft" / "latest" / "patient").resolve()
    assert done.stdout.startswith(f"{url} serves {patient} after ")
    assert f"server patient    {url} serves {patient}" in done.stdout
    assert not serving._answers(url)


@pytest.mark.long  # vLLM starts
def test_a_killed_command_leaves_no_server(copy, servers):
    servers("patient", "scorer")
    with served(copy) as (process, beneath):
        assert len(beneath) >= 4  # each with an engine
        process.kill()
        assert not psutil.wait_procs(beneath, timeout=60)[1]


@pytest.mark.long  # vLLM starts
def test_a_server_that_dies_ends_the_others_and_is_named(copy, servers):
    url, _ = servers("patient", "scorer")
    with served(copy) as (process, beneath):
        first = min(beneath, key=lambda each: each.create_time())
        first.kill()
        _, error = process.communicate(timeout=60)
        assert process.returncode == 2
        assert error.endswith(
            f"pcqc: error: {url}: the server ended: exit status -9 "
            f"(results/clinic-mini/logs/serve-{url.rpartition(':')[2]}.log)\n"
        )
        assert not psutil.wait_procs(beneath, timeout=60)[1]


@pytest.mark.slow  # vLLM is asked
def test_a_model_that_vllm_refuses_is_named_by_the_cause(copy, servers):
    (url,) = servers("patient")
    config = (copy.results / "models" / "sft" / "latest" / "patient" / "config.json").resolve()
    config.write_text(config.read_text().replace('"head_dim": 32', '"head_dim": 7'))
    refused = complaint(copy.cold().run(copy.command("serve", "clinic-mini", "--", "true")))
    assert "corrupted (its digest differs); run `snakemake" in refused
    assert not serving._answers(url)


def study_of(tmp_path, monkeypatch, **urls):
    """The clinic with servers, and models of two kinds where its results are."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(serving, "vllm_package", lambda: None)
    study = load_study("clinic")
    named = Servers(**{role: Server(url) for role, url in urls.items()})
    folders = {role: tmp_path / role for role in ("patient", "scorer")}
    for number, folder in enumerate(folders.values()):
        save_model(folder, tiny_model(number), make_tokenizer())
    latest = {role: type("Part", (), {"latest": folder}) for role, folder in folders.items()}
    monkeypatch.setattr(serving.Jobs, "models", lambda _: latest)
    return replace(study, servers=named)


@pytest.mark.parametrize(
    ("urls", "words"),
    [
        ({}, 'clinic: no role has a server; add for example servers: {patient: {url: "http://127'),
        ({"patient": "http://10.0.0.1:8000"}, "is no port of this machine; start it there"),
        ({"patient": "http://127.0.0.1"}, "is no port of this machine; start it there"),
        (
            dict.fromkeys(("patient", "scorer"), "http://127.0.0.1:9"),
            "servers.scorer: http://127.0.0.1:9 is of another model; give it its own port",
        ),
    ],
)
def test_what_cannot_be_served_is_said_before_anything_starts(tmp_path, monkeypatch, urls, words):
    study = study_of(tmp_path, monkeypatch, **urls)
    with pytest.raises(UserError) as refused:
        serve(study, ())
    assert words in str(refused.value)


def test_addresses_that_have_too_few_devices_each_are_refused(tmp_path, monkeypatch):
    study = study_of(tmp_path, monkeypatch, scorer="http://127.0.0.1:9")
    place = EnginePlacement((0, 1, 2, 3), tensor_parallel=2)
    monkeypatch.setattr(serving, "_placement", lambda study, role: place)
    several = replace(study.servers.scorer, replicas=("http://127.0.0.1:10",))
    assert len(serving._models(replace(study, servers=Servers(scorer=several)))) == 2
    several = replace(several, replicas=("http://127.0.0.1:10", "http://127.0.0.1:11"))
    words = "servers.scorer: 3 addresses share the devices of placement.scorer, fewer than tensor_"
    with pytest.raises(UserError, match=words):
        serving._models(replace(study, servers=Servers(scorer=several)))


def test_a_command_that_there_is_not_starts_no_server(tmp_path, monkeypatch):
    study = study_of(tmp_path, monkeypatch, patient="http://127.0.0.1:9")
    with pytest.raises(UserError, match="no-such-thing: no such command"):
        serve(study, ("no-such-thing",))


@pytest.mark.slow  # imports torch
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 3), (signal.SIGTERM, 143)])
def test_a_command_ends_in_its_own_time(number, status, tmp_path):
    """Ctrl-C reaches both; a stop of the one is passed on to the other."""
    (tmp_path / "slow.py").write_text(SLOW)
    (tmp_path / "beside.py").write_text(BESIDE)
    words = [sys.executable, "beside.py", sys.executable, "slow.py"]
    pipe = {"stdout": subprocess.PIPE, "text": True, "start_new_session": True}
    process = subprocess.Popen(words, cwd=tmp_path, **pipe)
    assert process.stdout.readline() == "begun\n"
    first = os.killpg if number == signal.SIGINT else os.kill
    first(process.pid, number)
    said, _ = process.communicate(timeout=30)
    assert (said, process.returncode) == ("ended\n", status)


@pytest.mark.parametrize("path", ["", "/v1"])
def test_a_port_that_is_taken_is_not_taken_for_ours(path, tmp_path, monkeypatch):
    stub = Stub(lambda body, attempt: completion([1]))
    stub.paths = ("/health",)
    try:
        study = study_of(tmp_path, monkeypatch, patient=stub.url + path)
        with pytest.raises(UserError, match="something answers there already"):
            serve(study, ())
    finally:
        stub.close()


def test_two_roles_of_one_model_share_a_server(tmp_path, monkeypatch):
    shared = {"patient": "http://127.0.0.1:9", "scorer": "http://localhost:9/v1"}
    study = study_of(tmp_path, monkeypatch, **shared)
    same = {role: type("Part", (), {"latest": tmp_path / "patient"}) for role in shared}
    monkeypatch.setattr(serving.Jobs, "models", lambda _: same)
    assert serving._models(study) == {"http://127.0.0.1:9": ("patient", tmp_path / "patient")}


@pytest.mark.parametrize("role", ["patient", "scorer"])
def test_the_papers_servers_take_what_the_plan_counts(role, tmp_path, monkeypatch):
    """Beside weights, `working` memory holds a profile run, and the rest the cache."""
    study = load_study("paper")
    shape = architecture(study, role)[1]
    config_of(shape, max_position_embeddings=40960).save_pretrained(tmp_path)
    total = int(DEVICES["H800"] * GIB)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (total, total))
    monkeypatch.setattr("vllm.platforms.current_platform.is_cpu", lambda: False)
    server = getattr(study.servers, role)
    command = serving._command(study, role, tmp_path, server.url)
    assert command[0] == sys.executable
    flags = dict(itertools.pairwise(command))
    place, memory = engines(study)[role], engine_memory(study, role)
    assert int(flags["--tensor-parallel-size"]) == place.tensor_parallel
    assert int(flags["--data-parallel-size"]) == len(place.devices) // place.tensor_parallel
    granted = float(flags["--gpu-memory-utilization"]) * DEVICES["H800"]
    assert granted == pytest.approx(memory.during("rollout"), rel=0.01)
    cache = int(flags["--kv-cache-memory-bytes"]) / GIB
    assert cache == pytest.approx(memory.resident["cache"], rel=0.01)
    working = study.assumptions.engine_working_gib
    assert int(flags["--max-num-seqs"]) * shape.vocabulary * SAMPLER / GIB < working / 2
    assert flags["--generation-config"] == "vllm"
    assert "--no-trust-remote-code" in command
    assert urllib3.util.parse_url(server.url).port == int(flags["--port"])


def test_servers_of_a_role_have_equal_shares_of_its_devices(monkeypatch):
    study = load_study("paper")
    first, second = "http://127.0.0.1:1", "http://127.0.0.1:2"
    named = replace(study.servers, patient=Server(first, replicas=(second,)))
    study = replace(study, servers=named)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "8,9,10,11,12,13,14,15")  # a part of the machine
    shown = [serving._devices(study, "patient", url) for url in (first, second)]
    assert [s["CUDA_VISIBLE_DEVICES"] for s in shown] == ["8,9,10,11", "12,13,14,15"]
