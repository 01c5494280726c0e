"""Updates of a run as `pcqc train` takes them, timed, of which nothing is kept."""

import time
from collections.abc import Callable
from typing import Any

import torch

from pcqc.jobs.rl_loop import Phases, Run, cases_of_update
from pcqc.training.token_trees import TokenTree, merge_prefixes
from pcqc_base.system.processes import SINGLE_PROCESS, Processes
from pcqc_study.run_job import latest_task
from pcqc_study.study_file import Study


def gpu_name() -> str | None:
    """The driver's name of the GPU that torch uses; None without a GPU."""
    return torch.cuda.get_device_name() if torch.cuda.is_available() else None


def finish() -> None:
    """Wait for the GPU: a call returns before its work there is done."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def timed(call: Callable[[], object]) -> float:
    """Seconds that a call takes."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


class Worker:
    """A run of a method that collects rollouts and learns, and writes nothing.

    Args:
        study: settings; its models and cases must be there.
        name: the method's.
        processes: that train together.

    Attributes:
        run: the run, as the job has it.
        seconds: per update so far, phase -> seconds.
        batch, metrics, report: the last update's.
    """

    def __init__(self, study: Study, name: str, processes: Processes = SINGLE_PROCESS):
        task = latest_task(study, "train", name, next(iter(study.runs)))
        self.run = Run(task, processes)
        self.seconds: list[dict[str, float]] = []
        self.batch: Any = None  # of the method's own kind

    def step(self, update: int = 1) -> None:
        """Update number `update` of the run, from empty caches."""
        run, phases = self.run, Phases()
        count = run.rl.cases_per_update
        cases = cases_of_update(run.cases, run.seed, update, count)
        with phases.time("rest"):
            self.batch, self.metrics = run.collect_rollouts(update, cases, phases)
            finish()
        phases.seconds["rest"] -= sum(s for name, s in phases.seconds.items() if name != "rest")
        with phases.time("update"):
            self.report = run.method.learn(run.services, update, self.batch)
            finish()
        self.seconds.append(phases.seconds)

    def trees(self) -> list[TokenTree]:
        """The token trees of the last update, merged as the learner merges them."""
        budget = self.run.rl.tokens_per_micro_batch
        return merge_prefixes(self.batch.sequences, budget, self.run.policy.device)
