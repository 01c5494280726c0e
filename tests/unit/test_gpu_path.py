"""What a GPU machine checks and the CPU does not, held to vLLM's own arithmetic."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from helpers import changed

from benchmarks.kernels import config_of
from pcqc.determinism import single_threaded
from pcqc.jobs import make_roles as setup
from pcqc.jobs.make_roles import Weights, make_engine
from pcqc_base.errors import UserError
from pcqc_base.system import processes
from pcqc_base.system.machine import machine
from pcqc_gpu.engines import vllm_start
from pcqc_gpu.engines.vllm import VllmEngine
from pcqc_gpu.planning.architecture import architecture
from pcqc_gpu.planning.devices import DEVICES, GIB
from pcqc_gpu.planning.memory import engine_memory, engines, learner_memory
from pcqc_study.run_job import placed
from pcqc_study.study_file import load_study


class Gpu:
    """A device with some of its memory taken; vLLM starts on it if its own check passes."""

    def __init__(self, kind: str):
        self.total = int(DEVICES[kind] * GIB)
        self.taken = 0.0

    def start(self, **settings) -> SimpleNamespace:
        """In place of `vllm.LLM`: the check that vLLM's GPU worker makes."""
        from vllm.v1.worker.utils import request_memory

        self.settings = settings
        free = self.total - int(self.taken * GIB)
        snapshot = SimpleNamespace(total_memory=self.total, free_memory=free, device_="cuda:0")
        request_memory(snapshot, SimpleNamespace(**{"gpu_memory_utilization": 0.92} | settings))
        model = SimpleNamespace(max_model_len=settings["max_model_len"], enable_sleep_mode=True)
        return SimpleNamespace(model_config=model, collective_rpc=lambda *args, **kwargs: None)


@pytest.fixture
def gpu(monkeypatch, tmp_path):
    """A fake GPU of a kind, beneath vLLM and torch."""
    pytest.importorskip("vllm")
    from vllm import platforms

    def make(kind: str) -> Gpu:
        device = Gpu(kind)
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("VLLM_CACHE_ROOT", str(tmp_path))
        monkeypatch.setattr(vllm_start, "vllm_package", lambda: SimpleNamespace(LLM=device.start))
        monkeypatch.setattr(platforms.current_platform, "is_cpu", lambda: False)
        monkeypatch.setattr(setup, "check_folder", lambda *arguments: {})
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (0, device.total))
        return device

    return make


def task_of(study) -> SimpleNamespace:
    return SimpleNamespace(settings=study, where=placed(study))


def write_config(study, role: str, folder: Path) -> None:
    shape = architecture(study, role)[1]
    config_of(shape, max_position_embeddings=40960).save_pretrained(folder)


@pytest.mark.parametrize(("name", "kind"), [("real", "H100"), ("real", "H200"), ("paper", "H800")])
def test_every_engine_starts_beside_those_before_it(gpu, tmp_path, name, kind):
    """The learner first, then servers, patient, actor and scorer, as a job starts them."""
    study, device = load_study(name), gpu(kind)
    device.taken = study.assumptions.reserve_gib
    device.taken += learner_memory(study, "learner").during("rollout")
    own = [role for role in ("patient", "actor", "scorer") if not getattr(study.servers, role, 0)]
    for role in set(engines(study)) - set(own):
        device.taken += engine_memory(study, role).during("rollout")
    for role in own:
        weights = Weights(tmp_path / role, study.dtype(role))
        write_config(study, role, weights.folder)
        make_engine(task_of(study), role, weights)
        planned = engine_memory(study, role).during("rollout")
        asked = device.settings["gpu_memory_utilization"] * device.total / GIB
        assert asked == pytest.approx(planned, rel=0.01)
        device.taken += planned


def test_what_the_learner_no_longer_uses_is_given_back_before_vllm_wakes(monkeypatch):
    calls = []
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: calls.append("empty"))
    engine = VllmEngine.__new__(VllmEngine)
    engine.llm, engine.sleeps = SimpleNamespace(wake_up=lambda: calls.append("wake")), True
    engine.wake()
    assert calls == ["empty", "wake"]


def test_a_placement_on_a_gpu_is_refused_without_one(tmp_path):
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    study = load_study("real")
    with pytest.raises(UserError, match=r"placement\.device is H100, .*; run `make gpu`"):
        make_engine(task_of(study), "actor", Weights(tmp_path, "bfloat16"))
    processes.require_gpu("CPU")


def test_a_driver_that_is_too_old_is_named(monkeypatch):
    def fail():
        raise RuntimeError(
            "The NVIDIA driver on your system is too old (found version 12020). Please update."
            "\nAlternatively, compile another PyTorch."
        )

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "init", fail)
    with pytest.raises(UserError) as caught:
        processes.require_gpu("GPU")
    assert (
        "can be used here (The NVIDIA driver on your system is too old (found version 12020)"
        in (str(caught.value))
    )
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("asked", "line"), [(True, "on"), (False, "off")])
def test_what_a_gpu_made_says_whether_samples_depend_on_their_batch(monkeypatch, asked, line):
    assert "batch_invariant" not in machine()  # on a CPU they do not
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA H100 80GB HBM3")
    monkeypatch.setattr(torch, "use_deterministic_algorithms", lambda *_, **__: None)
    monkeypatch.setattr(os, "environ", dict(os.environ))
    single_threaded(changed(load_study("real"), "placement.deterministic", asked).deterministic)
    assert machine()["batch_invariant"] == line
    assert machine()["gpu"] == "NVIDIA H100 80GB HBM3"


def test_a_process_without_others_leaves_its_group_after_an_error(monkeypatch):
    """NCCL would warn below the error that nobody did."""
    monkeypatch.setenv("LOCAL_RANK", "0")
    joined = processes.join([0])
    with pytest.raises(UserError), processes.leaving(joined):
        raise UserError("no memory")
    assert not torch.distributed.is_initialized()
    # One of several leaves it to the launcher, which prints the error last.
    calls = []
    monkeypatch.setattr(processes, "shutdown", calls.append)
    several = processes.Processes(0, 2)
    with pytest.raises(UserError), processes.leaving(several):
        raise UserError("no memory")
    assert not calls
    with processes.leaving(several):
        pass
    assert calls == [several]


@pytest.mark.parametrize(("has_gpu", "asked"), [(True, True), (True, False), (False, True)])
def test_one_setting_asks_for_deterministic_kernels(monkeypatch, has_gpu, asked):
    calls = []
    monkeypatch.setattr(torch, "use_deterministic_algorithms", lambda *a, **k: calls.append(a))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: has_gpu)
    monkeypatch.setattr(os, "environ", environment := dict(os.environ))
    study = changed(load_study("real"), "placement.deterministic", asked)
    single_threaded(study.deterministic)
    assert calls == [(asked or not has_gpu,)]
    for name in ("VLLM_BATCH_INVARIANT", "CUBLAS_WORKSPACE_CONFIG"):
        assert (name in environment) == (asked and has_gpu)
