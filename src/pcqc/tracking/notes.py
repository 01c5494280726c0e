"""Descriptions in MLflow's interface: Markdown for the study, a method and a run."""

import re
from typing import TYPE_CHECKING

from pcqc.config import Method, Study
from pcqc.config.training import CREDITS

if TYPE_CHECKING:
    from pcqc.tracking.finished import FinishedRun

NOTE = "mlflow.note.content"

SYNTHETIC = (
    "**The clinic is synthetic**: its cases are drawn from a made-up world, and nothing here says "
    "anything about medicine."
)


def of_study(study: Study) -> str:
    """What the experiment holds and how to find one's way in it."""
    roles = "\n".join(
        f"| {benchmark.title} | `{name}` | {benchmark.role.replace('_', ' ')} |"
        for name, benchmark in study.benchmarks.items()
    )
    methods = "\n".join(
        f"{place}. **{method.title}** (`{name}`): {_kind(method)}"
        for place, (name, method) in enumerate(study.methods.items(), start=1)
    )
    return _unwrap(f"""{study.title}: each method is a parent run, each of its seeds a child run.

{SYNTHETIC if study.synthetic else ""}

{methods}

| Benchmark | Name | Role |
|---|---|---|
{roles}

Checkpoints are chosen on the development benchmark alone.

**What did a run ask, and why was that question credited?** Open the run's *Traces*, or the page
`reading/questions.html` among its *Artifacts*; the run's description says how to read both.

**The list of runs.** In the column *Created* the methods stand in the order of the tables, not of
the clock, and *Duration* is the device time of the training; the tag `mirrored` says when a run was
copied here. Runs with the tag `superseded_by` were replaced by a later run of the same method and
seed; no table reads them.
""")


def of_method(study: Study, method: str, evaluations: list[dict]) -> str:
    """What the method does and how its runs came out, from the manifests of their evaluations."""
    settings = study.method(method)
    head = "| Run | Seed | " + " | ".join(b.title for b in study.benchmarks.values()) + " |"
    rule = "|---" * (2 + len(study.benchmarks)) + "|"
    rows = "\n".join(_result_row(study, manifest) for manifest in evaluations)
    return _unwrap(f"""{settings.title}: {_kind(settings)}.

Accuracy of the selected checkpoint, in percent:

{head}
{rule}
{rows}

The runs of this method are the child runs below it.
""")


def of_run(run: "FinishedRun") -> str:
    """What this run is, how it came out, and how to read its questions and credits."""
    study, settings = run.study, run.study.method(run.method)
    results = "\n".join(
        f"| {study.benchmarks[name].title} | {study.benchmarks[name].role.replace('_', ' ')} "
        f"| {100 * result['accuracy']:.1f} | {result['turns']:.2f} | {result['cases']} |"
        for name, result in run.results.items()
    )
    return _unwrap(f"""{settings.title}, seed {run.evaluation["seed"]}: {_kind(settings)}.
{_chosen(run)}

{SYNTHETIC if study.synthetic else ""}

| Benchmark | Role | Accuracy, % | Inquiry turns | Cases |
|---|---|---|---|---|
{results}

{_reading(run)}

**Files.** `evaluation/<benchmark>.jsonl` has every dialogue, `evaluation/<benchmark>.parquet` every
prediction; `config.json` has all settings; the tables are made from these files, after comparing
their digests with the manifests.
""")


def _unwrap(text: str) -> str:
    """Join the lines of each paragraph: the interface shows every line break."""
    lines: list[str] = []
    for line in text.strip().splitlines():
        starts = not line or re.match(r"\||#|\d+\. ", line)
        if starts or not lines or not lines[-1] or lines[-1].startswith(("|", "#")):
            lines.append(line)
        else:
            lines[-1] += f" {line}"
    return "\n".join(lines)


def _kind(method: Method) -> str:
    """The method in a clause."""
    if method.kind == "sft":
        return "supervised fine-tuning, the start of every other method"
    if method.tree:
        return (
            f"{method.updates} updates on a searched tree of up to {method.tree.budget} "
            "consultations a case, credited turn by turn by a critic"
        )
    clause = f"{method.updates} updates on {method.terminal_group} consultations a case"
    if method.question_group:
        clause += f" and {method.question_group} candidate responses a state"
    clause += f"; {CREDITS[method.question_credit]}"
    if method.question_credit != "none":
        taught = "all candidates" if method.supervise == "all" else "executed questions only"
        clause += f", and {taught} are supervised (beta {method.beta:g})"
    return clause


def _chosen(run: "FinishedRun") -> str:
    if not run.training:
        return "There was no reinforcement learning, so there is nothing to choose."
    rejected = len(run.selection["rejected"]) if run.selection else 0
    benchmark = run.study.benchmarks[run.study.development].title
    return (
        f"The checkpoint of update {run.evaluation['update']} of {run.training['updates']} was "
        f"chosen on {benchmark} ({rejected} rejected; `evaluation/selection.json` says why)."
    )


def _reading(run: "FinishedRun") -> str:
    heading = "## What did it ask, and why was that question credited?\n\n"
    if not run.training:
        return f"{heading}It was never credited. *Traces* shows consultations of the evaluation."
    if run.study.method(run.method).tree:
        return (
            f"{heading}Each turn was credited by a critic on a searched tree. "
            "`training/trees.jsonl` has one tree an update: at every node the question and its "
            "answer, the critic's value, the backed-up value, the visits and the advantage; "
            "`training/search_tree.svg` is a picture of one of them. *Traces* shows consultations "
            "out of the trees."
        )
    if not run.groups:
        return (
            f"{heading}This method draws no candidates, so no question has credit of its own: all "
            "turns share the advantage of their consultation. *Traces* shows what it asked."
        )
    return f"""{heading}1. *Traces*: each is a consultation. A turn's name ends with the credit of
its question; inside stand the patient with the question and the answer, and the scorer with all
candidates at that state, their utilities and credits, and the reason in words. The same reason is
the rationale of the assessment `question credit`.
2. `reading/questions.html` among the *Artifacts*: candidate groups from the first update to the
last as tables. `training/candidate_groups.jsonl` has every group, one a line: `baseline` is the
scorer's probability of the correct option before the question, `utility` after it and its answer,
`gain` their difference, `spread` the sample standard deviation of the utilities, and `credit` what
the tokens of the question were taught with.
3. *Metrics*: `credit/zero_group_share` is the share of groups in which no candidate was better
than another, `credit/utility_spread` how far they were apart."""


def _result_row(study: Study, manifest: dict) -> str:
    found = manifest["benchmarks"]
    cells = [
        f"{100 * found[name]['accuracy']:.1f}" if name in found else "–"
        for name in study.benchmarks
    ]
    return f"| {manifest['run']} | {manifest['seed']} | " + " | ".join(cells) + " |"
