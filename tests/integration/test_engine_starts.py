"""How engines in processes of their own start: side by side, and with what was compiled before."""

import multiprocessing
import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from engine_checks import start_small
from helpers import tiny_model

from pcqc_base.errors import UserError
from pcqc_gpu.engines import vllm_start

pytest.importorskip("vllm")
# A process that lists its environment, and ends once another has.
MEETS = (
    "env > {0}/env.$$; timeout 60 sh -c 'until [ $(ls {0}/env.* | wc -l) = 2 ]; do sleep 0.1; done'"
)


@pytest.fixture
def folders(tmp_path):
    """Checkpoints of one shape."""
    made = [tmp_path / "runs" / name for name in ("3f9c1a2b", "77aa01cd")]
    for folder in made:
        tiny_model(head_dim=32).save_pretrained(folder)
    return made


@pytest.fixture
def start(monkeypatch, tmp_path):
    """Begins an engine whose `vllm.LLM` is `make(**settings)`."""
    monkeypatch.setenv("VLLM_CACHE_ROOT", str(tmp_path / "cache"))
    monkeypatch.setenv("RANK", "3")

    def begin(folder: Path, make, shared: bool = False):
        def llm(**settings):
            return make(**settings) or SimpleNamespace(collective_rpc=lambda *_, **__: None)

        monkeypatch.setattr(vllm_start, "vllm_package", lambda: SimpleNamespace(LLM=llm))
        return start_small(folder, shared=shared)

    return begin


def child(command: str) -> int:
    """Run a command in a process begun as vLLM begins its own; its exit status."""
    process = multiprocessing.get_context("spawn").Process(target=os.system, args=(command,))
    process.start()
    process.join()
    return process.exitcode


def test_engines_start_side_by_side_each_in_the_environment_of_its_start(start, folders, tmp_path):
    """One after another, the first would wait for the second for a minute."""
    before = dict(os.environ)
    engines = []
    for folder in folders:
        engines.append(start(folder, lambda **_: child(MEETS.format(tmp_path)) and None))
        assert dict(os.environ) | {"RANK": "3"} == dict(os.environ)
        assert os.environ.get("CUDA_VISIBLE_DEVICES") == before.get("CUDA_VISIBLE_DEVICES")
    assert all(engine.thread.is_alive() for engine in engines)
    assert all(engine.wait() for engine in engines)
    listed = [path.read_text().splitlines() for path in tmp_path.glob("env.*")]
    assert len(listed) == 2
    for lines in listed:
        assert not any(line.startswith("RANK=") for line in lines)
        assert "VLLM_WORKER_MULTIPROC_METHOD=spawn" in lines


def test_one_that_fails_after_its_process_began_says_so_when_it_is_needed(start, folders):
    def fail(**settings):
        child("sleep 0.3")
        raise RuntimeError("no kernel image is available")

    engine = start(folders[0], fail)
    with pytest.raises(UserError, match=r"3f9c1a2b: vLLM does not start .*: no kernel image is"):
        engine.wait()


def compile_key(model: str, tmp_path: Path) -> str:
    """What vLLM itself files a compiled model under, beside versions and environment."""
    from vllm.engine.arg_utils import EngineArgs

    settings = {"skip_tokenizer_init": True, "enforce_eager": True, "block_size": 32}
    sizes = {"dtype": "float32", "max_model_len": 128, "kv_cache_memory_bytes": 2**24}
    return EngineArgs(model=model, **settings, **sizes).create_engine_config().compute_hash()


@pytest.mark.slow
def test_a_checkpoint_finds_what_was_compiled_for_another_of_its_shape(start, folders, tmp_path):
    """vLLM files it by the model's path; of two that start at once each has a name of its own."""
    names, keys = [], []

    def read(model, **settings):
        names.append(model)
        keys.append(compile_key(model, tmp_path))
        assert Path(model, "model.safetensors").resolve().parent in folders

    for folder in folders:
        start(folder, read, shared=True)
    assert names[0] == names[1]
    assert keys[0] == keys[1]
    assert compile_key(str(folders[0]), tmp_path) != compile_key(str(folders[1]), tmp_path)

    def read_while_another_starts(model, **settings):
        start(folders[1], read, shared=True)
        names.append(model)

    start(folders[0], read_while_another_starts, shared=True)
    assert names[2] != names[3]
    assert names[3] == names[0]


def test_without_a_place_for_names_the_folder_itself_is_read(start, folders, monkeypatch):
    monkeypatch.setenv("VLLM_CACHE_ROOT", "/dev/null/cache")
    names = []
    start(folders[0], lambda model, **settings: names.append(model), shared=True)
    assert names == [str(folders[0])]


def test_kernels_of_the_sampler_are_kept_apart_from_a_compiled_model(monkeypatch, tmp_path):
    """torch would put all that Triton compiles in a process beneath the first model's folder."""
    from torch._inductor.runtime.cache_dir_utils import triton_cache_dir

    monkeypatch.setattr(os, "environ", dict(os.environ))
    os.environ.pop("TRITON_CACHE_DIR", None)
    os.environ["VLLM_CACHE_ROOT"] = str(tmp_path)
    vllm_start.vllm_package()
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(tmp_path / "one-model")
    assert triton_cache_dir(0) == str(tmp_path / "triton")
