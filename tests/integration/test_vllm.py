"""vLLM for real, on the CPU: the numbers of the transformers engine, in its process and beyond."""

import importlib.util
import os
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
import urllib3
from helpers import ROUNDING, make_tokenizer, plain_logprobs, tiny_model
from transformers import Qwen3ForCausalLM

from pcqc.config import Server
from pcqc.engines.base import Request, Sampling
from pcqc.engines.server import ServerEngine
from pcqc.engines.sync import WeightSync
from pcqc.engines.transformers import TransformersEngine
from pcqc.errors import UserError
from pcqc.seeds import stream

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("vllm") is None, reason="vLLM is not installed"
)
VOCABULARY, STOP = 120, 29
SAMPLING = Sampling(temperature=1.0, top_p=0.8, max_tokens=12, stop=STOP)
TIED, UNTIED = "tied", "untied"


def make_model(seed: int, tied: bool) -> Qwen3ForCausalLM:
    """A tiny Qwen3 with the smallest heads that vLLM's kernels for the CPU take."""
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 32}
    sizes = {"hidden_size": 64, "intermediate_size": 96, "max_position_embeddings": 1024}
    weights = {"initializer_range": 0.2, "tie_word_embeddings": tied}
    return tiny_model(seed, VOCABULARY, **heads, **sizes, **weights)


def prompts(count: int = 9) -> list[list[int]]:
    """Prompts of 3 to 130 tokens, most of which begin alike for longer than a cache block."""
    rng = np.random.default_rng(0)
    shared = rng.integers(5, VOCABULARY, 70).tolist()
    own = [rng.integers(5, VOCABULARY, int(rng.integers(3, 60))).tolist() for _ in range(count)]
    return [[*shared, *p] if i % 3 else p for i, p in enumerate(own)]


def requests(samples: int = 3) -> list[Request]:
    return [
        Request(p, tuple(stream(1, i, k) for k in range(samples))) for i, p in enumerate(prompts())
    ]


def choices() -> list[list[int]]:
    return [[7, 9, 11], [5]] * 4 + [[100, 3]]


def flat(groups):
    return [one for group in groups for one in group]


def assert_scores(engine, model) -> None:
    """The engine's log-probabilities are those of the model's plain forward pass."""
    found = engine.next_logprobs(prompts(), choices())
    for prompt, ids, row in zip(prompts(), choices(), found, strict=True):
        assert row == pytest.approx(plain_logprobs(model, prompt)[-1][ids].tolist(), abs=ROUNDING)


def assert_sampled_logprobs(groups, model) -> None:
    for request, group in zip(requests(), groups, strict=True):
        for completion in group:
            table = plain_logprobs(model, [*request.prompt, *completion.tokens])
            rows = table[len(request.prompt) - 1 : -1]
            expected = rows.gather(1, torch.tensor(completion.tokens)[:, None])[:, 0]
            assert completion.logprobs == pytest.approx(expected.tolist(), abs=ROUNDING)


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
    from pcqc.engines.vllm import VllmEngine

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


def test_both_engines_read_the_same_log_probabilities(fresh, kind):
    model = make_model(0, kind == TIED)
    assert_scores(fresh, model)
    other = TransformersEngine(model).next_logprobs(prompts(), choices())
    for row, expected in zip(fresh.next_logprobs(prompts(), choices()), other, strict=True):
        assert row == pytest.approx(expected, abs=ROUNDING)
    assert fresh.next_logprobs([], []) == []


def test_sampled_log_probabilities_are_those_of_the_whole_vocabulary(fresh, kind):
    groups = fresh.generate(requests(), SAMPLING)
    assert [len(group) for group in groups] == [3] * 9
    assert_sampled_logprobs(groups, make_model(0, kind == TIED))
    assert {completion.stopped for completion in flat(groups)} == {True, False}
    for completion in flat(groups):
        assert completion.stopped == (completion.tokens[-1] == STOP)
        assert completion.stopped or len(completion.tokens) == SAMPLING.max_tokens


def test_draws_depend_on_prompt_and_stream_alone(engines):
    engine = engines[UNTIED]
    groups = engine.generate(requests(), SAMPLING)
    assert [c.tokens for c in groups[5]] == [
        engine.generate([Request(prompts()[5], (name,))], SAMPLING)[0][0].tokens
        for name in requests()[5].streams
    ]
    engine.reset_cache()
    backwards = engine.generate(requests()[::-1], SAMPLING)[::-1]
    assert [c.tokens for c in flat(backwards)] == [c.tokens for c in flat(groups)]
    assert len({tuple(c.tokens) for c in groups[5]}) > 1
    other = engine.generate([Request(prompts()[5], (stream(2),))], SAMPLING)
    assert other[0][0].tokens not in [c.tokens for c in groups[5]]


def test_prompts_longer_than_a_step_are_read_whole(engines):
    """Together these exceed what vLLM reads in a step; a CPU's generators cannot be set back."""
    rng = np.random.default_rng(1)
    wanted = [Request(rng.integers(5, 120, 900).tolist(), (stream(3, i),)) for i in range(12)]
    together = engines[UNTIED].generate(wanted, SAMPLING)
    alone = engines[UNTIED].generate(wanted[-1:], SAMPLING)
    assert together[-1][0].tokens == alone[0][0].tokens


def test_greedy_decoding_takes_the_likeliest_tokens(engines):
    greedy = Sampling(0.0, 0.8, 6, STOP)
    wanted = [Request(p, (1,)) for p in prompts()]
    expected = TransformersEngine(make_model(0, False)).generate(wanted, greedy)
    found = engines[UNTIED].generate(wanted, greedy)
    assert [c.tokens for c in flat(found)] == [c.tokens for c in flat(expected)]


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


def test_loaded_weights_are_used_and_old_keys_forgotten(fresh, kind):
    for seed in (1, 2):
        fresh.next_logprobs(prompts(), choices())  # fills the cache with keys of the old weights
        model = make_model(seed, kind == TIED)
        fresh.load_weights(model.named_parameters())
        assert_scores(fresh, model)
    assert_sampled_logprobs(fresh.generate(requests(), SAMPLING), model)


def sync(engine, learner, tolerance=1e-3) -> WeightSync:
    return WeightSync(engine, TransformersEngine(learner).next_logprobs, prompts(4), tolerance)


def test_the_probe_passes_rounding_and_catches_stale_weights(fresh, kind):
    learner = make_model(0, kind == TIED)
    assert sync(fresh, learner)(learner.named_parameters()) < ROUNDING
    with torch.no_grad():
        learner.model.layers[1].mlp.down_proj.weight[3] += 0.3
    others = [(n, p) for n, p in learner.named_parameters() if "layers.1.mlp" not in n]
    with pytest.raises(UserError, match=r"differ by .* log-probability -\d.* stale weights"):
        sync(fresh, learner)(others)
    assert sync(fresh, learner)(learner.named_parameters()) < ROUNDING


def test_the_probe_catches_a_tied_output_layer_left_behind(engines, monkeypatch):
    learner = make_model(4, tied=True)
    with monkeypatch.context() as patch:
        patch.setattr("pcqc.engines.vllm_worker._tie", lambda model: None)
        with pytest.raises(UserError, match="stale weights"):
            sync(engines[TIED], learner)(learner.named_parameters())
    assert sync(engines[TIED], learner)(learner.named_parameters()) < ROUNDING


def test_the_probe_does_not_pass_what_is_not_a_number(engines):
    learner = make_model(0, tied=False)
    with torch.no_grad():
        learner.lm_head.weight[50] = float("nan")
    with pytest.raises(UserError, match="differ by nan"):
        sync(engines[UNTIED], learner)(learner.named_parameters())


def test_on_a_cpu_it_sleeps_with_its_eyes_open(fresh):
    before = fresh.next_logprobs(prompts(), choices())
    fresh.sleep()
    fresh.wake()
    fresh.wake()
    assert not fresh.sleeps
    assert fresh.next_logprobs(prompts(), choices()) == before


def test_what_cannot_work_is_said_before_it_starts(engines, folders, tmp_path, monkeypatch):
    from pcqc.engines.vllm import VllmEngine

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
    from pcqc.engines.vllm import VllmEngine

    def refuse(**settings):
        raise ValueError("Traceback\nno such kernel")

    monkeypatch.setattr("vllm.LLM", refuse)
    with pytest.raises(UserError, match="vLLM does not start with this model: no such kernel"):
        VllmEngine(folders[TIED])


@pytest.fixture(scope="module")
def server_url(folders):
    """vLLM's own server on the loopback; the port is free when it starts."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
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
def test_a_real_server_gives_what_the_model_gives(server_url, engines):
    model = make_model(0, tied=False)
    engines[UNTIED].load_weights(model.named_parameters())
    served = ServerEngine(Server(server_url))
    assert_scores(served, model)
    groups = served.generate(requests(), SAMPLING)
    assert_sampled_logprobs(groups, model)
    expected = engines[UNTIED].generate(requests(), SAMPLING)
    assert [c.tokens for c in flat(groups)] == [c.tokens for c in flat(expected)]
    assert [c.stopped for c in flat(groups)] == [c.stopped for c in flat(expected)]
    results = served.generate([Request([1] * 1500, (1,)), Request([1, 2], (1,))], SAMPLING)
    assert results[0][0].kind == "refused"
    assert results[1][0].tokens
    assert served.counts == {"retries": 0, "refused": 1}


ALONE = """
import sys, time
from pathlib import Path
from pcqc.engines.vllm import VllmEngine
engine = VllmEngine(Path(sys.argv[1]), cache_tokens=4096, own_process=True)
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


@pytest.mark.long  # each starts vLLM anew, in another process
def test_in_a_process_of_its_own_beneath_a_launcher(folders, monkeypatch):
    """Last of all: when it closes, vLLM forgets what engines within this process need."""
    from pcqc.engines.vllm import VllmEngine

    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    engine = VllmEngine(folders[TIED], cache_tokens=4096, own_process=True)
    try:
        assert (os.environ["WORLD_SIZE"], os.environ["RANK"]) == ("2", "1")
        assert_scores(engine, make_model(0, tied=True))
        learner = make_model(1, tied=True)
        assert sync(engine, learner)(learner.named_parameters()) < ROUNDING
        assert_sampled_logprobs(engine.generate(requests(), SAMPLING), learner)
    finally:
        engine.close()
