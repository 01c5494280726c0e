"""Evaluation of a run's selected checkpoint on every benchmark."""

from pcqc.cases import read_cases
from pcqc.config import Study
from pcqc.evaluation.benchmark import evaluate
from pcqc.files import read_json, sha256_file, write_json
from pcqc.instruction import instruction_files
from pcqc.jobs.setup import Weights, make_setting, role_weights, single_threaded
from pcqc.paths import Paths
from pcqc.progress import Progress
from pcqc.provenance import heading, job_fingerprint, job_settings


def run_evaluation(study: Study, method: str, run: str) -> None:
    """Evaluate the selected checkpoint on all benchmarks; the manifest is written last."""
    single_threaded()
    paths = Paths.of(study)
    folder = paths.evaluation(method, run)
    study.require(method, run)
    cases = {name: read_cases(paths.cases(name)) for name in study.benchmarks}
    update, checkpoint, weights = selected_weights(study, method, run)
    setting = make_setting(study, weights)
    labels = {"method": method, "run": run, "update": update}
    summaries = {}
    progress = Progress(f"evaluate {method} {run}", len(study.benchmarks), "benchmark")
    for name in study.benchmarks:
        setting.actor.engine.reset_cache()
        setting.patient.engine.reset_cache()
        result = evaluate(
            setting,
            cases[name],
            seed=study.evaluation_seed,
            benchmark=name,
            labels=labels,
        )
        result.write(folder / f"{name}.parquet", folder / f"{name}.jsonl")
        files = {"predictions": f"{name}.parquet", "dialogues": f"{name}.jsonl"}
        summaries[name] = {**result.summary(), **files}
        progress.advance(accuracy=summaries[name]["accuracy"], turns=summaries[name]["turns"])
    progress.close()
    _write_manifest(study, method, run, update, checkpoint, summaries)


def selected_weights(study: Study, method: str, run: str) -> tuple[int, str, Weights]:
    """Update, digest and weights of a run's selected checkpoint; Shared SFT's is the actor."""
    paths = Paths.of(study)
    selection = paths.evaluation(method, run) / "selection.json"
    update = read_json(selection)["selected"]["update"]
    weights = role_weights(study, "actor")
    if update:
        trained = paths.run(method, run)
        folder = trained / "checkpoints" / f"{update:06d}"
        weights = Weights(folder, study.dtype("actor"), f"remove {trained} and run `make results`")
    return update, sha256_file(weights.folder / "manifest.json"), weights


def _write_manifest(study, method, run, update, checkpoint, summaries) -> None:
    paths = Paths.of(study)
    folder = paths.evaluation(method, run)
    names = ["selection.json"]
    names += [s[kind] for s in summaries.values() for kind in ("predictions", "dialogues")]
    inputs = [paths.cases(name) for name in study.benchmarks]
    inputs += [paths.model("patient") / "manifest.json", *instruction_files(study)]
    settings = job_settings(study, "evaluate")
    fingerprint = job_fingerprint("pcqc.jobs.evaluate", inputs, settings, checkpoint)
    write_json(
        folder / "manifest.json",
        {
            **heading(study, method, run, study.seed(run), fingerprint),
            "update": update,
            "checkpoint": checkpoint,
            "benchmarks": summaries,
            "files": {name: sha256_file(folder / name) for name in names},
        },
    )
