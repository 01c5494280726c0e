"""`pcqc doctor --measure`: seconds of a study's updates here, from which a plan has its hours.

A few updates of a run are taken as `pcqc train` takes them, and nothing of them is kept. FLOPs are
of the tokens that were sampled, read and trained. The mean context of the trained tokens stands for
that of all.
"""

import resource
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import torch

from pcqc.jobs.learner import write_model
from pcqc.jobs.rl_loop import Run
from pcqc.training.token_trees import TokenTree
from pcqc_base.errors import UserError, nearest
from pcqc_base.system.files import write_json
from pcqc_base.system.machine import machine, now
from pcqc_base.system.processes import Processes
from pcqc_gpu.planning.architecture import Architecture, architecture, update_passes
from pcqc_gpu.planning.devices import GIB
from pcqc_gpu.planning.hours import measured_file
from pcqc_gpu.planning.memory import served
from pcqc_gpu.planning.trainings import trained
from pcqc_gpu.timed_updates import Worker, finish, gpu_name, timed
from pcqc_study.study_file import Study

# Phases in which engines work -> what is counted in each, and whose.
WORKS = {
    "rollout": ("sampled", "actor"),
    "patient": ("sampled", "patient"),
    "scorer": ("read", "scorer"),
}
# Rows and columns of the measured product: enough to keep the device busy, and quick.
SIZE = {"cuda": 8192, "cpu": 1024}
PRODUCTS = 10


def measure(study: Study, name: str, processes: Processes, updates: int) -> dict | None:
    """Take updates and write `measured/METHOD.json`, which `pcqc plan` reads.

    Args:
        study: settings; its models and cases must be there.
        name: a trained method's; by default one in which every role works.
        processes: that train together.
        updates: that count, after a first one.

    Returns:
        What was written, in the first process.

    Raises:
        UserError: no such method is trained.
    """
    methods = trained(study)
    if name and name not in methods:
        raise UserError(f"study '{study.name}' trains no '{name}'{nearest(name, methods)}")
    method, start = name or usual_method(study), time.perf_counter()
    worker = Worker(study, method, processes)
    with worker.run.engines.awake():
        started = time.perf_counter() - start
    worker.step(1)
    rows = [_update(study, worker, update) for update in range(2, updates + 2)]
    saving = _saving(study, worker.run)
    if not processes.is_main:
        return None
    record = _record(study, worker, rows)
    record["measured"] |= {**saving, "seconds/start": started}
    write_json(measured_file(study, method), record)
    return record


def _record(study: Study, worker: Worker, rows: Sequence[dict[str, float]]) -> dict:
    """Medians over updates, of the gap's maximum the largest, and where they were measured."""
    middle = {key: median(row[key] for row in rows) for key in rows[0]}
    middle["gap/max"] = max(row["gap/max"] for row in rows)
    return {
        "study": study.name,
        "method": worker.run.name,
        "updates": len(rows),
        "device": gpu_name() or "CPU",
        "processes": worker.run.processes.count,
        "dtype": study.dtype("actor"),
        "engine": study.engine.kind,
        "measured": middle,
        "product_tflops": product_rate(study.dtype("actor")) / 1e12,
        "peak_gib": _peak_gib(),
        "machine": machine(),
        "time": now(),
    }


def usual_method(study: Study) -> str:
    """The first method that is trained, if possible one in which every role works."""
    methods = trained(study)
    if not methods:
        raise UserError(f"study '{study.name}' trains nothing, so there is nothing to measure")
    return next((n for n, m in methods.items() if "scorer" in m.needs), next(iter(methods)))


def _update(study: Study, worker: Worker, update: int) -> dict[str, float]:
    """One update: seconds by phase, tokens a second, FLOPs of engines and learner, the gap."""
    start = time.perf_counter()
    with worker.run.engines.awake():
        sync = time.perf_counter() - start
    whole = timed(lambda: worker.step(update))
    phases, metrics, statistics = worker.seconds[-1], worker.metrics, worker.report.statistics
    seconds = {phase: phases.get(phase, 0.0) for phase in (*WORKS, "rest", "update")}
    engines = sum(seconds[phase] for phase in WORKS)
    # Where dialogues go on alone, the roles' work is not apart: all of it counts as rollouts.
    rates = {
        f"rate/{role}": metrics.get(f"{what}/{role}", 0.0) / (seconds[phase] or engines)
        for phase, (what, role) in WORKS.items()
    }
    return {
        **{f"seconds/{phase}": value for phase, value in seconds.items()},
        "seconds/engines": engines,
        "seconds/sync": sync,
        "seconds/whole": whole,
        **rates,
        "rate/update": statistics["tokens/trained"] / seconds["update"],
        **{f"flops/{what}": flops for what, flops in _flops(study, worker).items()},
        "gap/mean": statistics["gap/mean"],
        "gap/max": statistics["gap/max"],
    }


def _flops(study: Study, worker: Worker) -> dict[str, float]:
    """FLOPs of the last update: what each engine here wrote and read, and the learner's passes.

    An actor reads a case's prompt and each answer once: its cache holds shared prefixes.
    """
    run, metrics, trees = worker.run, worker.metrics, worker.trees()
    answers = metrics["sampled/patient"]
    opened = sum(len(run.context.chat.open(case.public)) for case in worker.batch.cases)
    tokens = {
        "actor": (metrics["sampled/actor"], opened + answers),
        "patient": (answers, metrics["read/patient"]),
        "scorer": (0.0, metrics.get("read/scorer", 0.0)),
    }
    flops, context = {}, _mean_context(trees)
    for role, (written, read) in tokens.items():
        shape, here = architecture(study, role)[1], not served(study, role)
        flops[f"{role}_written"] = here * shape.forward_flops(written, context, written)
        flops[f"{role}_read"] = here * shape.forward_flops(read, context, 0)
    again = bool(study.placement and study.placement.learner.gradient_checkpointing)
    forward = update_flops(architecture(study, "actor")[1], trees, passes=1)
    for name, recomputed in (("update", False), ("update_with_recomputation", again)):
        flops[name] = forward * update_passes(run.method, recomputed)
    return flops


def _mean_context(trees: Sequence[TokenTree]) -> float:
    """Mean number of tokens that a token sees: itself and its ancestors."""
    tokens = sum(len(tree.tokens) for tree in trees)
    return sum(position + 1 for tree in trees for position in tree.positions) / max(tokens, 1)


def update_flops(shape: Architecture, trees: Sequence[TokenTree], passes: int) -> float:
    """FLOPs of an update on merged sequences.

    Args:
        shape: the actor's.
        trees: each of their tokens is computed once and sees itself and its ancestors.
        passes: forward passes that the update is worth.
    """
    tokens = sum(len(tree.tokens) for tree in trees)
    members: list[Any] = [member for tree in trees for member in tree.members]
    scored = sum(int(member.selected.sum()) for member in members)
    return passes * shape.forward_flops(tokens, _mean_context(trees), scored)


def product_rate(dtype: str) -> float:
    """FLOP/s of a large matrix product on this device, the fastest of several."""
    place = "cuda" if torch.cuda.is_available() else "cpu"
    size = SIZE[place]
    left, right = torch.randn(2, size, size, device=place).to(getattr(torch, dtype))

    def product() -> None:
        torch.mm(left, right)
        finish()

    product()
    return 2 * size**3 / min(timed(product) for _ in range(PRODUCTS))


def _saving(study: Study, run: Run) -> dict[str, float]:
    """Seconds that a run waits for a checkpoint to be written, and for a state to be copied."""
    start = time.perf_counter()
    _ = [part.files() for part in run.parts.values()]
    copied = time.perf_counter() - start
    study.results.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="measure-", dir=study.results) as folder:
        path, start = Path(folder) / "checkpoint", time.perf_counter()
        write_model(path, run.model, run.policy.backend, run.context.chat.tokenizer, {})
        return {"seconds/state": copied, "seconds/checkpoint": time.perf_counter() - start}


def utilisations(record: dict) -> dict[str, float]:
    """Share of a large matrix product's speed, by phase; recomputation does not count."""
    middle, product = record["measured"], record["product_tflops"] * 1e12 * record["processes"]
    engines = sum(v for key, v in middle.items() if key.endswith(("_written", "_read")))
    return {
        "engines": engines / (product * max(middle["seconds/engines"], 1e-9)),
        "update": middle["flops/update"] / (product * middle["seconds/update"]),
    }


def _peak_gib() -> float:
    """Peak GiB: of this process's tensors on the GPU, else of the process on the host."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated() / GIB
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
