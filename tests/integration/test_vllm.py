"""vLLM for real, on the CPU: the numbers of the transformers engine, in its process and beyond."""

import importlib.util
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import closing

import numpy as np
import pydantic
import pytest
import torch
import urllib3
from engine_checks import (
    CHECKS,
    SAMPLING,
    STOP,
    WITH_ITS_WEIGHTS,
    make_model,
    prompts,
    reads_log_probabilities,
    samples_with_log_probabilities_of_the_whole_vocabulary,
)
from helpers import ROUNDING, free_port, make_tokenizer, tiny_model
from stub_server import Stub, completion

from pcqc.engines.base import Request
from pcqc.engines.transformers import TransformersEngine
from pcqc.engines.weight_update import WeightUpdate
from pcqc.seeds import stream
from pcqc_base.errors import UserError
from pcqc_base.settings import Server
from pcqc_gpu.engines.server import ServerEngine

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("vllm") is None, reason="vLLM is not installed"
)
TIED, UNTIED = "tied", "untied"


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A model folder of each kind, with a tokenizer."""
    made = {name: tmp_path_factory.mktemp(name) for name in (TIED, UNTIED)}
    for name, folder in made.items():
        make_model(0, name == TIED).save_pretrained(folder)
        make_tokenizer().save_pretrained(folder)
    return made


@pytest.fixture(scope="module")
def engines(folders):
    """Engines of both kinds side by side in this process, which is left as it was found."""
    from pcqc_gpu.engines.vllm import VllmEngine

    set_num_threads, environment = torch.set_num_threads, dict(os.environ)
    made = {name: VllmEngine(folder, cache_tokens=4096) for name, folder in folders.items()}
    yield made
    for engine in made.values():
        engine.close()
    from vllm.distributed import cleanup_dist_env_and_memory

    cleanup_dist_env_and_memory()
    torch.set_num_threads = set_num_threads
    os.environ.clear()
    os.environ.update(environment)


@pytest.fixture(params=[TIED, UNTIED])
def kind(request):
    return request.param


@pytest.fixture
def fresh(engines, kind):
    """An engine with the weights of its folder, its cache empty."""
    engine = engines[kind]
    engine.load_weights(make_model(0, kind == TIED).named_parameters())
    return engine


def test_the_model_runner_is_that_of_gpus_where_there_is_triton(engines):
    """V2 under `make test-runner`, V1 elsewhere."""
    (runner,) = engines[TIED].llm.collective_rpc(lambda worker: type(worker.model_runner))
    has_triton = importlib.util.find_spec("triton") is not None
    assert runner.__module__ == f"vllm.v1.worker.cpu{'.' if has_triton else '_'}model_runner"


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_vllm_does_what_every_engine_must(fresh, kind, check):
    check(fresh, make_model(0, kind == TIED))


def test_prompts_longer_than_a_step_are_read_whole(engines):
    """Together these exceed what vLLM reads in a step; a CPU's generators cannot be set back."""
    rng = np.random.default_rng(1)
    wanted = [Request(rng.integers(5, 120, 900).tolist(), (stream(3, i),)) for i in range(12)]
    together = engines[UNTIED].generate(wanted, SAMPLING)
    alone = engines[UNTIED].generate(wanted[-1:], SAMPLING)
    assert together[-1][0].tokens == alone[0][0].tokens


def cached_tokens(engine, prompt) -> int:
    """How much of a prompt vLLM took from its cache."""
    from vllm import SamplingParams

    (output,) = engine.llm.generate(
        [{"prompt_token_ids": prompt}], SamplingParams(max_tokens=1), use_tqdm=False
    )
    return output.num_cached_tokens


def test_prefixes_are_shared_until_the_cache_is_reset(fresh):
    state = [*prompts()[1], *range(30, 60)]
    fresh.reset_cache()
    assert cached_tokens(fresh, state[:70]) == 0
    assert cached_tokens(fresh, state) == 64  # a later turn, the candidates of a state
    fresh.reset_cache()
    assert cached_tokens(fresh, state) == 0


def sync(engine, learner) -> WeightUpdate:
    return WeightUpdate(engine, TransformersEngine(learner).next_logprobs, prompts(4), 1e-3)


def test_the_probe_passes_rounding_and_catches_stale_weights(fresh, kind):
    learner = make_model(0, kind == TIED)
    assert sync(fresh, learner)(learner.named_parameters()) < ROUNDING
    with torch.no_grad():
        learner.model.layers[1].mlp.down_proj.weight[3] += 0.3
    others = [(n, p) for n, p in learner.named_parameters() if "layers.1.mlp" not in n]
    with pytest.raises(UserError, match=r"does not compute with|were not taken"):
        sync(fresh, learner)(others)
    assert sync(fresh, learner)(learner.named_parameters()) < ROUNDING


def test_the_probe_catches_a_tied_output_layer_left_behind(engines, monkeypatch):
    learner = make_model(4, tied=True)
    with monkeypatch.context() as patch:
        patch.setattr("pcqc_gpu.engines.vllm_worker._tie", lambda model: None)
        with pytest.raises(UserError, match="does not compute with the learner's weights"):
            sync(engines[TIED], learner)(learner.named_parameters())
    assert sync(engines[TIED], learner)(learner.named_parameters()) < ROUNDING


def test_what_cannot_work_is_said_before_it_starts(engines, folders, tmp_path, monkeypatch):
    from pcqc_gpu.engines.vllm import VllmEngine

    with pytest.raises(UserError, match=r"1020 tokens and 12 new ones exceed the 1024"):
        engines[TIED].generate([Request([1] * 1020, (1,))], SAMPLING)
    tiny_model().save_pretrained(tmp_path)  # heads of 16
    with pytest.raises(UserError, match=r"attention heads of 16; vLLM on a CPU has .*32, 64"):
        VllmEngine(tmp_path, cache_tokens=4096)
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(UserError, match=r"set engine\.process: own"):
        VllmEngine(folders[TIED], cache_tokens=4096)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.raises(UserError, match="run `make gpu`"):
        VllmEngine(folders[TIED], cache_tokens=4096, own_process=True)


def test_a_refusal_of_vllm_is_one_line(engines, folders, monkeypatch):
    from pcqc_gpu.engines.vllm import VllmEngine

    @pydantic.dataclasses.dataclass
    class Config:
        max_model_len: int

        def __post_init__(self):
            raise ValueError("max_model_len (8192) is greater than 4096")

    with pytest.raises(pydantic.ValidationError) as caught:
        Config(8192)
    problems = iter(
        [
            ValueError("Traceback\nno such kernel"),
            RuntimeError("CUDA error: out of memory\nCompile with TORCH_USE_CUDA_DSA"),
            caught.value,
        ]
    )

    def refuse(**settings):
        raise next(problems)

    monkeypatch.setattr("vllm.LLM", refuse)
    ends = "no such kernel", "CUDA error: out of memory", r"8192\) is greater than 4096"
    for words in ends:
        with pytest.raises(UserError, match=rf"vLLM does not start with this model: .*{words}$"):
            VllmEngine(folders[TIED])


# How vLLM hands a completion over, which sampling does not depend on.
NOT_SAMPLING = ("detokenize", "output_kind", "skip_clone")


def test_a_servers_own_defaults_do_not_change_its_samples():
    """A server fills what a request leaves out from its model's generation config."""
    from vllm.entrypoints.openai.completion.protocol import CompletionRequest

    from pcqc_gpu.engines.vllm import sampling_params

    with closing(Stub(lambda body, attempt: completion([3, STOP]))) as stub:
        stub.engine().generate([Request((1,), (12,))], SAMPLING)
    (body,) = stub.bodies
    defaults = {"top_k": 20, "min_p": 0.1, "repetition_penalty": 1.3, "temperature": 0.6}
    served = CompletionRequest(**body).to_sampling_params(SAMPLING.max_tokens, defaults)
    offline = sampling_params(SAMPLING, 12)
    names = [name for name in offline.__struct_fields__ if name not in NOT_SAMPLING]
    assert {n: getattr(served, n) for n in names} == {n: getattr(offline, n) for n in names}


@pytest.fixture(scope="module")
def server_url(folders):
    """vLLM's own server on the loopback."""
    port = free_port()
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server"]
    command += ["--model", str(folders[UNTIED]), "--host", "127.0.0.1", "--port", str(port)]
    command += ["--dtype", "float32", "--max-model-len", "1024", "--enforce-eager"]
    command += ["--block-size", "32", "--kv-cache-memory-bytes", str(2**24)]
    quiet = {"VLLM_LOGGING_LEVEL": "ERROR", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
    process = subprocess.Popen(command, env=os.environ | quiet | {"VLLM_NO_USAGE_STATS": "1"})
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(1500):
            assert process.poll() is None, "the server ended"
            try:
                urllib3.request("GET", f"{url}/health", retries=False)
                break
            except urllib3.exceptions.HTTPError:
                time.sleep(0.2)
        yield url
    finally:
        process.terminate()
        process.wait(30)


@pytest.mark.long  # each starts vLLM anew, in another process
@pytest.mark.parametrize("check", WITH_ITS_WEIGHTS, ids=lambda check: check.__name__)
def test_a_real_server_does_what_every_engine_must(server_url, check):
    check(ServerEngine(Server(server_url)), make_model(0, tied=False))


ALONE = """
import sys, time
from pathlib import Path
from pcqc_gpu.engines.vllm import VllmEngine
engine = VllmEngine(Path(sys.argv[1]), cache_tokens=4096, own_process=True)
engine.wake()
print("ready", file=sys.stderr, flush=True)
time.sleep(600)
"""


def ended(group: int) -> bool:
    """Whether no process of a group is left."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.long  # each starts vLLM anew, in another process
def test_a_killed_learner_leaves_no_vllm_behind(folders):
    command = [sys.executable, "-c", ALONE, str(folders[TIED])]
    learner = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        assert any(line == "ready\n" for line in learner.stderr), "vLLM did not start"
        learner.kill()
        learner.wait()
        until = time.monotonic() + 60
        while not ended(learner.pid):
            assert time.monotonic() < until, "vLLM outlives its learner"
            time.sleep(0.1)
    finally:
        if not ended(learner.pid):
            os.killpg(learner.pid, signal.SIGKILL)


KILLED = """
import os, signal, sys, threading
from pathlib import Path
from pcqc.engines.base import Request, Sampling
from pcqc_base.errors import UserError
from pcqc_gpu.engines.vllm import VllmEngine
engine = VllmEngine(Path(sys.argv[1]), cache_tokens=4096, own_process=True)
engine.wake()
(core,) = engine.llm.llm_engine.engine_core.resources.engine_manager.processes
threading.Timer(1.0, os.kill, (core.pid, signal.SIGKILL)).start()
requests = [Request((1 + number,), (2,)) for number in range(100)]
calls = {"a draw": lambda: engine.generate(requests, Sampling(1.0, 1.0, 1000, ()))}
for name, call in {**calls, "a later call": engine.reset_cache}.items():
    try:
        call()
    except UserError as problem:
        print(f"{name}: {problem}", flush=True)
"""


@pytest.mark.long  # each starts vLLM anew, in another process
def test_a_killed_vllm_ends_the_call_that_waits_for_it(folders):
    """The kernel kills so where memory runs out."""
    command = [sys.executable, "-c", KILLED, str(folders[TIED])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    killed = r"vLLM ended; run again .*: its process \S+ was killed \(SIGKILL\)"
    assert re.search(f"^a draw: {killed}\na later call: {killed}$", done.stdout, re.MULTILINE)


REFUSED = """
import sys
from pathlib import Path
from pcqc_base.errors import UserError
from pcqc_gpu.engines.vllm import VllmEngine
engine = VllmEngine(Path(sys.argv[1]), cache_tokens=4096, own_process=True)
try:
    engine.wake()
except UserError as problem:
    print(problem, flush=True)
"""


@pytest.mark.long  # each starts vLLM anew, in another process
def test_a_process_that_cannot_read_its_weights_is_named_by_that(tmp_path):
    """`test_printed_errors.py` has other causes, without vLLM."""
    make_model(0, tied=True).save_pretrained(tmp_path)
    make_tokenizer().save_pretrained(tmp_path)
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    command = [sys.executable, "-c", REFUSED, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert re.search(r"vLLM does not start .*: SafetensorError: [^\n]*$", done.stdout, re.MULTILINE)


@pytest.mark.long  # each starts vLLM anew, in another process
def test_in_a_process_of_its_own_beneath_a_launcher(folders, monkeypatch):
    """Last of all: when it closes, vLLM forgets what engines within this process need."""
    from pcqc_gpu.engines.vllm import VllmEngine

    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    engine = VllmEngine(folders[TIED], cache_tokens=4096, own_process=True)
    try:
        assert (os.environ["WORLD_SIZE"], os.environ["RANK"]) == ("2", "1")
        reads_log_probabilities(engine, make_model(0, tied=True))
        learner = make_model(1, tied=True)
        assert sync(engine, learner)(learner.named_parameters()) < ROUNDING
        samples_with_log_probabilities_of_the_whole_vocabulary(engine, learner)
    finally:
        engine.close()
