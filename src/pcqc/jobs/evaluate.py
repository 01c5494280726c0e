"""Evaluation of a run's checkpoints on every benchmark: the selected one, and `also_evaluate`."""

from pcqc.cases.case import Case
from pcqc.consultation.play import RolloutContext
from pcqc.determinism import single_threaded
from pcqc.engines.sharded import share_out
from pcqc.evaluation.benchmark import evaluate
from pcqc.jobs.make_roles import checked_cases, checkpoint_weights, make_context, selected_weights
from pcqc_base.system.processes import SINGLE_PROCESS, Processes
from pcqc_base.system.progress import Progress
from pcqc_base.task import Task


def run(task: Task, processes: Processes = SINGLE_PROCESS) -> dict:
    """Evaluate the checkpoints on all benchmarks; their summaries, for the manifest.

    Every process plays its share of the consultations; the first writes.

    Files of the selected checkpoint are named `<benchmark>`, of another `<benchmark>@<update>`.
    """
    settings = task.settings
    single_threaded(settings.deterministic)
    cases = {name: checked_cases(task.inputs[f"cases {name}"]) for name in settings.benchmarks}
    update, checkpoint, weights = selected_weights(task)
    context = make_context(task, weights)
    share_out((context.actor, context.patient), processes)
    summary = {
        "update": update,
        "checkpoint": checkpoint,
        "benchmarks": _evaluate(task, context, cases, update, processes),
    }
    further = {}
    for other in settings.also_evaluate:
        checkpoint, weights = checkpoint_weights(task, other)
        context.actor.engine.load_weights(weights.load().named_parameters())
        benchmarks = _evaluate(task, context, cases, other, processes, suffix=f"@{other}")
        further[str(other)] = {"checkpoint": checkpoint, "benchmarks": benchmarks}
    return {**summary, "further_updates": further} if further else summary


def _evaluate(
    task: Task,
    context: RolloutContext,
    cases: dict[str, list[Case]],
    update: int,
    processes: Processes,
    suffix: str = "",
) -> dict[str, dict]:
    """Benchmark -> summary of the context's actor; predictions and dialogues go to the folder."""
    method, letter = task.arguments
    summaries = {}
    label, silent = f"evaluate {method} {letter} {update}", not processes.is_main
    progress = Progress(label, len(cases), "benchmark", silent=silent)
    for name in cases:
        context.actor.engine.reset_cache()
        context.patient.engine.reset_cache()
        evaluation = evaluate(
            context,
            cases[name],
            seed=task.settings.evaluation_seed,
            benchmark=name,
            labels={"method": method, "run": letter, "update": update},
        )
        files = {"predictions": f"{name}{suffix}.parquet", "dialogues": f"{name}{suffix}.jsonl"}
        if processes.is_main:
            evaluation.write(task.folder / files["predictions"], task.folder / files["dialogues"])
        summaries[name] = {**evaluation.summary(), **files}
        progress.advance(accuracy=summaries[name]["accuracy"], turns=summaries[name]["turns"])
    progress.close()
    return summaries
