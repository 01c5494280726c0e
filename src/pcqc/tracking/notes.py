"""Descriptions in MLflow's interface, in Markdown: of the study, its methods, runs and models."""

from typing import TYPE_CHECKING

from pcqc.study import Method, Study
from pcqc.tracking import page
from pcqc.tracking.finished import FinishedRun

if TYPE_CHECKING:
    from mlflow.entities import RunInfo

NOTE = "mlflow.note.content"
REPORT = "Report, tables, figures, transcripts"  # name of the run that has them
SYNTHETIC = """
**The clinic is synthetic**: its cases come from a made-up world. No number here says anything about
medicine.
"""


def of_study(study: Study) -> str:
    """What the experiment holds and where to look."""
    methods = "\n".join(
        f"- **{method.title}** (`{name}`): {clause(study, method)}"
        for name, method in study.methods.items()
    )
    benchmarks = "\n".join(
        f"- {benchmark.title} (`{name}`): {benchmark.role.replace('_', ' ')}"
        for name, benchmark in study.benchmarks.items()
    )
    return f"""{study.title}: each method is a parent run, each of its seeds a child run.
{SYNTHETIC if study.synthetic else ""}
{methods}

Benchmarks; checkpoints are chosen on the development benchmark alone:

{benchmarks}

The report has the means over a method's runs. *Created* is when the training began; *Duration*
lasts until the end of the evaluation, waiting included. A run whose name begins with "superseded"
was replaced by a later run of the same method and seed (`superseded_by`); no table uses it. The run
"{REPORT}" has the results of the study among its *Artifacts*.
"""


def of_report(study: Study) -> str:
    """What the run with the study's report holds, and how to open it."""
    return f"""`report.html` opens with the conclusion of {study.title}; `tables/` and `figures/`
have its parts. `transcripts/` has every consultation, to filter and compare: download the folder
and open `index.html`, or open `{study.results}/transcripts/index.html` where the study was run.
"""


def of_method(study: Study, method: str) -> str:
    """What the method does."""
    settings = study.method(method)
    return f"{settings.title}: {clause(study, settings)}. Its runs are the child runs below it."


def of_run(run: FinishedRun, info: "RunInfo") -> str:
    """What this run is, its commit, settings, accuracies, and where its questions are."""
    study, method = run.study, run.study.method(run.method)
    checkpoint = "It is not trained by reinforcement learning: there is no checkpoint to choose."
    if run.training:
        checkpoint = (
            f"The checkpoint of update {run.evaluation['update']} of {run.training['updates']} was "
            f"chosen on {study.benchmarks[study.development].title}; "
            f"{len(run.selection['rejected'])} were rejected, for the reasons in "
            "`evaluation/selection.json`."
        )
    own = f"#/experiments/{info.experiment_id}/runs/{info.run_id}"
    results = "\n".join(
        f"| {study.benchmarks[name].title} | {100 * result['accuracy']:.1f} "
        f"| {result['turns']:.2f} |"
        for name, result in run.evaluation["benchmarks"].items()
    )
    # Of a long description the interface shows the beginning alone.
    return f"""**[The run on one page]({own}/artifacts/{page.NAME})**: settings unlike those of
{page.baseline(study)}, learning curve, accuracies, every compared question by update, with its
credit. [All curves]({own}/model-metrics)

{method.title}, seed {run.study.seed(run.run)}: {clause(study, method)}.
Commit `{run.evaluation["git_commit"]}`.

| Benchmark | Accuracy, % | Inquiry turns |
|---|---|---|
{results}

{checkpoint}
{_further_updates(run)}{SYNTHETIC if study.synthetic else ""}
*Traces* show some of its consultations. A turn's name ends with its credit; the step inside it
shows what the turn was compared with. Where the study was run, `{run.transcripts}` shows all.
"""


def _further_updates(run: FinishedRun) -> str:
    """A table of the further updates that the study evaluates; empty where it names none."""
    if "further_updates" not in run.evaluation:
        return ""
    rows = "\n".join(
        f"| {update} | {run.study.benchmarks[name].title} | {100 * result['accuracy']:.1f} "
        f"| {result['turns']:.2f} |"
        for update, evaluated in run.evaluation["further_updates"].items()
        for name, result in evaluated["benchmarks"].items()
    )
    return f"""
Further updates that the study evaluates (`also_evaluate`), logged as `further_updates/...`; the
run's `evaluation/...` are those of the selected checkpoint alone:

| Update | Benchmark | Accuracy, % | Inquiry turns |
|---|---|---|---|
{rows}
"""


def of_model(run: FinishedRun) -> str:
    """What the versions of a method's registered model are."""
    title = run.study.method(run.method).title
    return f"{title} of {run.study.title}: each version is the selected checkpoint of one run."


def of_checkpoint(run: FinishedRun, folder: str, name: str) -> str:
    """What a selected checkpoint is and how to load it."""
    return f"""{run.title}, update {run.evaluation["update"]}. For research on training methods; not
for medical use. Load it where the study was run:

    AutoModelForCausalLM.from_pretrained("{folder}")

    vllm serve {folder}

`mlflow artifacts download -u models:/{name}@{run.run}` prints the folder.
"""


def clause(study: Study, method: Method) -> str:
    """A method of a study in a clause."""
    if method.kind == "sft":
        return method.words
    return f"{'up to ' * study.may_level_off(method)}{method.updates} updates on {method.words}"
