"""Threads and algorithms that make a job's results repeatable."""

import os
import re

import torch

from pcqc_base.errors import UserError, one_line


def single_threaded(deterministic: bool = False) -> None:
    """Use one torch thread (or OMP_NUM_THREADS of them) and deterministic algorithms.

    Small models are fastest with one thread, and sums have one order, so results repeat on a CPU.

    Args:
        deterministic: on a GPU too, as `placement.deterministic` says; call this before a model or
            an engine is loaded. Torch warns of an operation that has no deterministic kernel.

    Raises:
        UserError: OMP_NUM_THREADS is no number of threads.
    """
    import transformers.utils

    transformers.utils.logging.disable_progress_bar()
    # Transformers imports scikit-learn to generate with a second model, which no job does. The
    # import takes more than a second.
    transformers.utils.is_sklearn_available = lambda: False
    torch.set_num_threads(_threads(os.environ.get("OMP_NUM_THREADS", "")))
    gpu = torch.cuda.is_available()
    torch.use_deterministic_algorithms(deterministic or not gpu, warn_only=gpu)
    if deterministic and gpu:
        os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
        os.environ["VLLM_BATCH_INVARIANT"] = "1"
    # Memory is always written before it is read; filling it first takes a quarter of the time.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]


def _threads(given: str) -> int:
    """Threads that OMP_NUM_THREADS asks for: of a list, one a nesting level, the first."""
    outermost = given.split(",")[0].strip() or "1"
    if not re.fullmatch("[1-9][0-9]{0,3}", outermost):
        raise UserError(
            f"OMP_NUM_THREADS is '{one_line(given, 40)}': set it to a number of threads, such as 1"
        )
    return int(outermost)
