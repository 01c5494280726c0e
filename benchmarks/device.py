"""What PCQC reaches on this device: tokens a second, FLOP utilisation, memory, engine-learner gap.

    python -m benchmarks.device [--study clinic] [--dtype bfloat16] [--gradient-checkpointing]

Takes a few updates of PCQC as `pcqc train` does, with every role on this machine, on its GPU if
torch finds one. In bfloat16 or with gradient checkpointing the learner is DeepSpeed's with one
process (ZeRO 1: fp32 master weights and gradients), else plain torch. FLOPs of an update follow the
plan's formula (docs/plan.md) on the trained tokens: shared prefixes count once, recomputation does
not count. They are compared with the rate of a large matrix product in the same number format after
each update, and with the data sheet's peak of a known GPU. What does not fit the GPU by the plan is
refused. Needs the study's models: `make results`, or its rules up to `sft`. Prints JSON.
"""

import argparse
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import torch

from benchmarks.measure import Finding, Quartiles, gpu_name, peak_gib, report, timed
from benchmarks.workers import Worker, finish
from pcqc.errors import UserError
from pcqc.jobs.launch import join_job
from pcqc.planning.architecture import Architecture, architecture
from pcqc.planning.checks import require_fit
from pcqc.planning.cost import update_passes
from pcqc.planning.devices import DEVICES, device, named
from pcqc.study import LearnerPlacement, Placement, Servers, Study, load_study
from pcqc.system.determinism import single_threaded
from pcqc.system.processes import shutdown
from pcqc.training.token_trees import TokenTree

METHOD = "pcqc"
UTILISATION = "update: model FLOP utilisation"
LARGEST = "gap of engine and learner, largest"
# Rows and columns of the measured product: enough to keep the device busy, and quick.
SIZE = {"cuda": 8192, "cpu": 1024}
PRODUCTS = 10


def on_this_device(
    study: Study, engine: str | None, dtype: str | None = None, recomputed: bool = False
) -> Study:
    """The study on one device, without servers.

    Args:
        study: settings; of its placement nothing else is kept.
        engine: kind of every role's engine; the study's if not given.
        dtype: of the actor's weights; the study's if not given.
        recomputed: whether the learner uses gradient checkpointing; where the study's placement has
            it, it does.
    """
    recomputed = recomputed or bool(
        study.placement and study.placement.learner.gradient_checkpointing
    )
    engine = engine or study.engine.kind
    study = replace(study, servers=Servers(), engine=replace(study.engine, kind=engine))
    if dtype and study.models:
        actor = replace(study.models.actor, dtype=dtype)
        study = replace(study, models=replace(study.models, actor=actor))
    elif dtype:
        study = replace(study, engine=replace(study.engine, dtype=dtype))
    if not recomputed and study.dtype("actor") == "float32":
        return replace(study, placement=None)
    learner = LearnerPlacement((0,), zero=1, gradient_checkpointing=recomputed)
    # A GPU that the plan does not know keeps its driver's name.
    gpu = gpu_name()
    kind = (named(gpu) or gpu) if gpu else "CPU"
    return replace(
        study,
        placement=Placement(kind, learner, devices_per_node=1),
        # In DeepSpeed's own process vLLM would find its communication taken down at the end.
        engine=replace(study.engine, process="own"),
    )


def update_flops(shape: Architecture, trees: Sequence[TokenTree], passes: int) -> float:
    """FLOPs of an update on merged sequences.

    Args:
        shape: of the actor.
        trees: each of their tokens is computed once and sees itself and its ancestors.
        passes: forward passes that the update is worth.
    """
    tokens = sum(len(tree.tokens) for tree in trees)
    seen = sum(position + 1 for tree in trees for position in tree.positions)
    scored = sum(int(member.selected.sum()) for tree in trees for member in tree.members)
    return passes * shape.forward_flops(tokens, seen / tokens, scored)


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


def measure(study: Study, worker: Worker, updates: int) -> dict[str, list[float]]:
    """Row of the table -> its value in each update, after a first update to warm up.

    Tokens a second of a phase are its tokens by the phase's seconds.
    """
    rows = defaultdict(list)
    shape, dtype = architecture(study, "actor")[1], study.dtype("actor")
    passes = update_passes(worker.run.method, recomputed=False)
    kind = named(gpu_name() or "")
    worker.step(1)
    for update in range(2, updates + 2):
        worker.step(update)
        seconds, metrics, statistics = worker.seconds[-1], worker.metrics, worker.report.statistics
        for what, phase, count in (
            ("rollouts: tokens written by the actor", "rollout", metrics["sampled/actor"]),
            ("answers: tokens written by the patient", "patient", metrics["sampled/patient"]),
            ("scoring: tokens of the prompts read", "scorer", metrics["read/scorer"]),
            ("update: tokens in the loss", "update", statistics["tokens/trained"]),
        ):
            rows[what].append(count / seconds[phase])
        reached = 100 * update_flops(shape, worker.trees(), passes) / seconds["update"]
        rows[f"{UTILISATION}, by a product of matrices here"].append(reached / product_rate(dtype))
        if kind:
            peak = device(kind).peak(dtype)
            rows[f"{UTILISATION}, by the data sheet of {kind}"].append(reached / peak)
        rows["gap of engine and learner, mean"].append(statistics["gap/mean"])
        rows[LARGEST].append(statistics["gap/max"])
    return rows


def measured(study: Study, updates: int) -> list[Finding]:
    """Findings on a study of `on_this_device`.

    Raises:
        UserError: the study does not fit this GPU.
    """
    if study.placement and study.placement.device in DEVICES.keys() - {"CPU"}:
        require_fit(study)
    processes = join_job(study)
    rows = measure(study, Worker(study, METHOD, processes), updates)
    largest = max(rows.pop(LARGEST))
    units = {"update: model": "%", "gap": "nats"}
    findings = [
        Finding(
            what,
            Quartiles.of(values),
            next((u for start, u in units.items() if what.startswith(start)), "tokens a second"),
        )
        for what, values in rows.items()
    ]
    findings += [Finding(LARGEST, largest, "nats"), Finding("peak memory", peak_gib(), "GiB")]
    shutdown(processes)
    return findings


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="device", description=__doc__.splitlines()[0])
    parser.add_argument("--study", default="clinic")
    parser.add_argument("--engine", choices=("transformers", "vllm"), help="default: the study's")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), help="default: the study's")
    parser.add_argument("--gradient-checkpointing", action="store_true")
    parser.add_argument("--updates", type=int, default=5, help="that count, after a first one")
    parsed = parser.parse_args(arguments)
    single_threaded()
    try:
        study = load_study(parsed.study)
        study = on_this_device(study, parsed.engine, parsed.dtype, parsed.gradient_checkpointing)
        findings = measured(study, parsed.updates)
    except UserError as problem:
        parser.error(str(problem))
    learner = study.placement and study.placement.learner
    return report(
        findings,
        study=study.name,
        device=gpu_name() or "CPU",
        engine=study.engine.kind,
        dtype=study.dtype("actor"),
        learner="DeepSpeed, ZeRO 1" if learner else "torch",
        gradient_checkpointing=parsed.gradient_checkpointing,
    )


if __name__ == "__main__":
    sys.exit(main())
