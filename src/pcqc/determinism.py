"""Threads and algorithms that make a job's results repeatable."""

import os

import torch


def single_threaded(deterministic: bool = False) -> None:
    """Use one torch thread (or the environment's OMP_NUM_THREADS) and deterministic algorithms.

    Small models are fastest with one thread, and sums have one order, so results repeat on a CPU.

    Args:
        deterministic: on a GPU too, as `placement.deterministic` says; call this before a model or
            an engine is loaded. Torch warns of an operation that has no deterministic kernel.
    """
    import transformers.utils

    transformers.utils.logging.disable_progress_bar()
    # Transformers imports scikit-learn to generate with a second model, which no job does. The
    # import takes more than a second.
    transformers.utils.is_sklearn_available = lambda: False
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    gpu = torch.cuda.is_available()
    torch.use_deterministic_algorithms(deterministic or not gpu, warn_only=gpu)
    if deterministic and gpu:
        os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
        os.environ["VLLM_BATCH_INVARIANT"] = "1"
    # Memory is always written before it is read; filling it first takes a quarter of the time.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
