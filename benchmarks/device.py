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
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch

from benchmarks.measure import Finding, Quartiles, gpu_name, ratios, report, resident_gib, timed
from benchmarks.workers import Recorded, Worker, finish
from pcqc.errors import UserError
from pcqc.jobs.launch import join_job
from pcqc.planning.architecture import Architecture, architecture
from pcqc.planning.cost import update_passes
from pcqc.planning.devices import DEVICES, GIB, device, named
from pcqc.planning.fit import require_fit
from pcqc.study import LearnerPlacement, Placement, Servers, Study, load_study
from pcqc.system.determinism import single_threaded
from pcqc.system.processes import shutdown
from pcqc.training.token_trees import TokenTree

METHOD = "pcqc"
GPUS = DEVICES.keys() - {"CPU"}  # whose memory the plan knows
# Rows and columns of the measured product: enough to keep the device busy, and quick.
SIZE = {"cuda": 8192, "cpu": 1024}
PRODUCTS = 10


def on_this_device(
    study: Study, engine: str | None, dtype: str | None = None, recomputed: bool = False
) -> Study:
    """The study on one device, without servers.

    Args:
        study: settings; its placement is not kept.
        engine: kind of every role's engine; the study's if not given.
        dtype: of the actor's weights; the study's if not given.
        recomputed: whether the learner uses gradient checkpointing.
    """
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
    return replace(
        study,
        placement=Placement(_kind(gpu_name()), learner, devices_per_node=1),
        # In DeepSpeed's own process vLLM would find its communication taken down at the end.
        engine=replace(study.engine, process="own"),
    )


def _kind(name: str | None) -> str:
    """The plan's name of this device; the driver's if the plan does not know it."""
    return (named(name) or name) if name else "CPU"


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
    one, other = torch.randn(2, size, size, device=place).to(getattr(torch, dtype))

    def product() -> None:
        torch.mm(one, other)
        finish()

    product()
    return 2 * size**3 / min(timed(product) for _ in range(PRODUCTS))


def peak_gib() -> float:
    """Peak GiB: of the GPU's tensors, else of this process on the host."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated() / GIB
    return resident_gib()


@dataclass
class Rates:
    """What updates reached, one entry each.

    Attributes:
        tokens: kind of work -> tokens a second.
        flops: FLOP/s of the update.
        product: FLOP/s of a matrix product right after it.
        gaps: mean and largest difference between engine's and learner's log-probabilities.
    """

    tokens: dict[str, list[float]] = field(default_factory=dict)
    flops: list[float] = field(default_factory=list)
    product: list[float] = field(default_factory=list)
    gaps: list[tuple[float, float]] = field(default_factory=list)


def measure(worker: Worker, updates: int) -> Rates:
    """Take one update to warm up, then those that count."""
    run, rates = worker.run, Rates()
    shape = architecture(run.study, "actor")[1]
    for role in (run.context.actor, run.context.patient, run.scorer):
        role.engine = Recorded(role.engine)
    engines = [role.engine for role in (run.context.actor, run.context.patient, run.scorer)]
    for update in range(1, updates + 2):
        for engine in engines:
            engine.written = engine.read = 0
        worker.step(update)
        if update == 1:
            continue
        for name, rate in tokens_per_second(worker, *engines).items():
            rates.tokens.setdefault(name, []).append(rate)
        flops = update_flops(shape, worker.trees(), update_passes(run.settings, recomputed=False))
        rates.flops.append(flops / worker.seconds[-1]["update"])
        rates.product.append(product_rate(run.study.dtype("actor")))
        statistics = worker.report.statistics
        rates.gaps.append((statistics["gap/mean"], statistics["gap/max"]))
    return rates


def tokens_per_second(worker: Worker, actor, patient, scorer) -> dict[str, float]:
    """Kind of work -> tokens a second in its phase of the last update."""
    seconds, counts = worker.seconds[-1], worker.counts()
    work = {
        "rollouts: tokens written by the actor": ("rollout", actor.written),
        "answers: tokens written by the patient": ("patient", patient.written),
        "scoring: tokens of the prompts read": ("scorer", scorer.read),
        "update: tokens in the loss": ("update", counts["trained_tokens"]),
        "update: tokens of the sequences": ("update", counts["sequence_tokens"]),
        "update: tokens once their common beginnings are merged": ("update", counts["tree_tokens"]),
    }
    return {name: count / seconds[phase] for name, (phase, count) in work.items()}


def findings(rates: Rates, kind: str | None, dtype: str) -> list[Finding]:
    """The table's rows.

    Args:
        rates: as measured.
        kind: of the device, where its data sheet is known.
        dtype: of the actor's weights.
    """
    found = [Finding(n, Quartiles.of(r), "tokens a second") for n, r in rates.tokens.items()]
    utilisation = "update: model FLOP utilisation"
    shares = ratios([100 * rate for rate in rates.flops], rates.product)
    found.append(Finding(f"{utilisation}, by a product of matrices here", shares, "%"))
    if kind:
        peak = device(kind).peak(dtype)
        shares = Quartiles.of([100 * rate / peak for rate in rates.flops])
        found.append(Finding(f"{utilisation}, by the data sheet of {kind}", shares, "%"))
    means, largest = zip(*rates.gaps, strict=True)
    return [
        *found,
        Finding("memory at most", peak_gib(), "GiB"),
        Finding("gap of engine and learner, mean", Quartiles.of(means), "nats"),
        Finding("gap of engine and learner, largest", max(largest), "nats"),
    ]


def measured(study: Study, updates: int) -> tuple[list[Finding], dict]:
    """Findings on a study of `on_this_device`, and the details beside them."""
    if study.placement and study.placement.device in GPUS:
        require_fit(study)
    processes = join_job(study)
    worker = Worker(study, METHOD, processes)
    rates = measure(worker, updates)
    gpu, dtype = gpu_name(), study.dtype("actor")
    placed = study.placement and study.placement.learner
    details = {
        "study": study.name,
        "device": gpu or "CPU",
        "engine": study.engine.kind,
        "dtype": dtype,
        "learner": "DeepSpeed, ZeRO 1" if placed else "torch",
        "gradient_checkpointing": bool(placed and placed.gradient_checkpointing),
        "seconds": worker.seconds[1:],
        "last_update": worker.counts(),
        "flops_per_second": rates.flops,
        "product_flops_per_second": rates.product,
    }
    shutdown(processes)
    return findings(rates, gpu and named(gpu), dtype), details


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
        found, details = measured(study, parsed.updates)
    except UserError as problem:
        parser.error(str(problem))
    return report(found, **details)


if __name__ == "__main__":
    sys.exit(main())
