"""Evaluation of a run's checkpoints on every benchmark: the selected one, and `also_evaluate`."""

from pathlib import Path

from pcqc.cases.case import Case
from pcqc.consultation.play import RolloutContext
from pcqc.errors import UserError
from pcqc.evaluation.benchmark import evaluate
from pcqc.jobs.select import checkpoints_of, selected_checkpoint
from pcqc.jobs.setup import Weights, make_context, read_checked_cases, role_weights
from pcqc.study import Study
from pcqc.study.job_outputs import job_output
from pcqc.study.paths import Paths
from pcqc.study.provenance import heading
from pcqc.system.determinism import single_threaded
from pcqc.system.files import sha256_file, write_json
from pcqc.system.progress import Progress


def run_evaluation(study: Study, method: str, run: str) -> None:
    """Evaluate the checkpoints on all benchmarks; the manifest is written last.

    Files of the selected checkpoint are named `<benchmark>`, of another `<benchmark>@<update>`.
    """
    study.require(method, run)
    paths, result = Paths.of(study), job_output(study, "evaluate", method, run)
    if result.stands():
        return
    single_threaded(study.deterministic)
    cases = {name: read_checked_cases(study, paths.cases(name)) for name in study.benchmarks}
    update, checkpoint, weights = selected_weights(study, method, run)
    context = make_context(study, weights)
    receipt, folder = result.begin(), result.path
    manifest = {
        **heading(study, method, run, study.seed(run), receipt.made_from.fingerprint),
        "update": update,
        "checkpoint": checkpoint,
        "benchmarks": _evaluate(study, context, cases, folder, (method, run, update)),
    }
    further = {}
    for other in study.also_evaluate.get(method, ()):
        entry = checkpoints_of(study, method, run)[other]
        digest, weights = _trained_weights(study, method, run, entry)
        context.actor.engine.load_weights(weights.load().named_parameters())
        labels = (method, run, other)
        found = _evaluate(study, context, cases, folder, labels, suffix=f"@{other}")
        further[str(other)] = {"checkpoint": digest, "benchmarks": found}
    if further:
        manifest["further_updates"] = further
    names = ["selection.json"]
    for part in (manifest, *further.values()):
        for summary in part["benchmarks"].values():
            names += [summary["predictions"], summary["dialogues"]]
    manifest["files"] = {name: sha256_file(folder / name) for name in names}
    write_json(folder / "manifest.json", manifest)
    result.finish([*names, "manifest.json"])


def _evaluate(
    study: Study,
    context: RolloutContext,
    cases: dict[str, list[Case]],
    folder: Path,
    labels: tuple[str, str, int],
    suffix: str = "",
) -> dict[str, dict]:
    """Benchmark -> summary of the context's actor; predictions and dialogues go to `folder`."""
    method, run, update = labels
    summaries = {}
    progress = Progress(f"evaluate {method} {run} {update}", len(study.benchmarks), "benchmark")
    for name in study.benchmarks:
        context.actor.engine.reset_cache()
        context.patient.engine.reset_cache()
        found = evaluate(
            context,
            cases[name],
            seed=study.evaluation_seed,
            benchmark=name,
            labels={"method": method, "run": run, "update": update},
        )
        files = {"predictions": f"{name}{suffix}.parquet", "dialogues": f"{name}{suffix}.jsonl"}
        found.write(folder / files["predictions"], folder / files["dialogues"])
        summaries[name] = {**found.summary(), **files}
        progress.advance(accuracy=summaries[name]["accuracy"], turns=summaries[name]["turns"])
    progress.close()
    return summaries


def selected_weights(study: Study, method: str, run: str) -> tuple[int, str, Weights]:
    """Update, digest and weights of a run's selected checkpoint; Shared SFT's is the actor.

    Raises:
        UserError: the choice, the run or the checkpoint is not as it was written.
    """
    update, checkpoint = selected_checkpoint(study, method, run)
    if update:
        return update, *_trained_weights(study, method, run, checkpoint)
    weights = role_weights(study, "actor")
    return update, sha256_file(weights.folder / "manifest.json"), weights


def _trained_weights(study: Study, method: str, run: str, checkpoint: dict) -> tuple[str, Weights]:
    """Digest and weights of a checkpoint, given its entry in the run's manifest."""
    trained = Paths.of(study).run(method, run)
    remedy = f"move {trained} away and run the workflow again"
    weights = Weights(trained / checkpoint["path"], study.dtype("actor"), remedy)
    manifest = weights.folder / "manifest.json"
    if sha256_file(manifest) != checkpoint["digest"]:
        raise UserError(f"{manifest}: altered since it was written; {remedy}")
    return checkpoint["digest"], weights
