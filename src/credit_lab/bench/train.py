"""Trains a credit in the quick clinic: its accuracy after its updates, and at equal cost."""

import dataclasses
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from analysis.budgets import COSTS, Budgets
from analysis.statistics.estimates import over_runs
from analysis.table import number
from credit_lab.bench.methods import CreditedQuestions, CreditedTurns, credits_of, known
from credit_lab.bench.score import reader_of
from credit_lab.bench.table import markdown
from pcqc.logged.updates import EVENTS, TIMES, read_updates
from pcqc_base.settings import Method
from pcqc_base.system.manifest import checked, read_manifest
from pcqc_clinic.jobs import train as training
from pcqc_study.graph import Jobs
from pcqc_study.run_job import perform, run_job, task_of
from pcqc_study.study_file import START, Study, load_study
from turn_credit import Credit

CASES = 400  # of Clinic-Dev, on which every third update is validated
# What the references spend: consultations of both, and tokens of GRPO, which samples fewer.
BUDGETS = {"trajectories": 1152, "sampled_tokens": 100_000}
# Updates of a credit that plays on from states: each has several times the consultations.
PLAYS_ON = 2
HEADS = (
    *("credit", "updates", "right after them (%)"),
    *(
        f"at {COSTS[kind].number(amount).text()} {COSTS[kind].unit}"
        for kind, amount in BUDGETS.items()
    ),
    *("best questions (%)", "consultations", "million tokens", "commit"),
)


@dataclass(frozen=True)
class Trained:
    """One run.

    Attributes:
        spent: kind of cost -> validated update -> amount by then.
        validated: metric -> validated update -> its value, %; accuracy of update 0 is Shared SFT's.
        commit: that trained it.
    """

    spent: dict[str, dict[int, float]]
    validated: dict[str, dict[int, float]]
    commit: str

    def at(self, kind: str) -> float:
        """Accuracy when so much was spent; see `analysis.budgets`."""
        budgets = Budgets({"whole": BUDGETS[kind]}, ({("", ""): self.spent[kind]},))
        weights = budgets.weights("", "", "whole")
        return sum(share * self.validated["accuracy"][update] for update, share in weights.items())


def quick_study(entry: Method | None = None) -> Study:
    """The study `clinic` with Clinic-Dev alone, validated more often, and an entry named `own`."""
    study = load_study("clinic")
    development = replace(study.benchmarks[study.development], cases=CASES)
    methods = study.methods | ({"own": entry} if entry else {})
    return replace(
        study,
        name="creditbench",
        benchmarks={study.development: development},
        rl=replace(study.rl, checkpoint_every=3, save_every=3),
        methods={name: _short(method) for name, method in methods.items()},
    )


def _short(method: Method) -> Method:
    if not getattr(method, "continuations", 0):
        return method
    every = {"checkpoint_every": 1, "save_every": 1}
    return replace(method, updates=PLAYS_ON, rl={**method.rl, **every})


def entry_of(credit: Credit, file: str) -> Method:
    """A credit as a method that has PCQC's settings, or of turns Terminal-only's."""
    study, own = load_study("clinic"), known(credit.of, credit.name, file, 1)
    entry: dict[str, Any] = {"title": credit.title, "role": "peer", "file": file}
    if credit.of == "questions":
        entry |= {"method": "credited_questions", "question_credit": credit.name}
        entry |= {"supervise": "executed" if own.alone else "all"}
        entry |= {"continuations": int("continued" in own.reads)}
        return CreditedQuestions(**{**_settings(study.method("pcqc")), **entry})
    entry |= {"method": "credited_turns", "turn_credit": credit.name, "belief": reader_of(credit)}
    entry |= {"continuations": 3 if "values" in own.reads else 0}
    return CreditedTurns(**{**_settings(study.method("terminal_only")), **entry})


def _settings(method: Method) -> dict:
    return {field.name: getattr(method, field.name) for field in dataclasses.fields(method)}


def train(what: str) -> list[str]:
    """Train what a file defines, or a method of `config/methods.yaml`; a Markdown row of each.

    Raises:
        UserError: neither is there; see `methods.known` too.
    """
    if not what.endswith(".py"):
        study = quick_study()
        return [_row(study.method(what).title, _runs(study, what))]
    rows = []
    for credit in credits_of(what):
        runs = _runs(quick_study(entry_of(credit, what)), "own", Path(what))
        rows.append(_row(credit.title, runs))
    return rows


def joined(table: str, own: list[str]) -> str:
    """A table of trained credits with further rows; a row takes the place of its credit's."""
    titles = [row.split(" | ")[0] for row in own]
    kept = [row for row in table.splitlines()[2:] if row.split(" | ")[0] not in titles]
    return "\n".join([markdown(HEADS, "l" + "r" * (len(HEADS) - 2) + "l", []), *kept, *own])


def _runs(study: Study, name: str, file: Path | None = None) -> list[Trained]:
    for job in Jobs(study).shared():
        run_job(study, job.kind, *job.arguments)
    run_job(study, "select", START, "A")
    start = run_job(study, "evaluate", START, "A").path
    accuracy = read_manifest(checked(start))["benchmarks"][study.development]["accuracy"]
    return [_run(study, name, run, file, accuracy) for run in study.runs]


def _run(study: Study, name: str, run: str, file: Path | None, start: float) -> Trained:
    job = Jobs(study).job("train", name, run)
    if file:
        job = replace(job, inputs={**job.inputs, "credit": file})
    perform(job, lambda job: training.run(task_of(study, job)))
    manifest = read_manifest(job.path)
    events = read_updates(*(job.path / f"{name}.jsonl" for name in (EVENTS, TIMES)))
    of_update = {event["update"]: event for event in events if event["kind"] == "update"}
    checkpoints = {c["update"]: c["validation"] for c in manifest["checkpoints"]}
    accuracies = {update: 100 * v["accuracy"] for update, v in checkpoints.items()}
    return Trained(
        {kind: {u: of_update[u][kind] for u in checkpoints} for kind in BUDGETS},
        {
            "accuracy": {0: 100 * start, **accuracies},
            "best_questions": {u: 100 * v["best_questions"] for u, v in checkpoints.items()},
        },
        manifest["git_commit"][:7],
    )


def _row(title: str, runs: list[Trained]) -> str:
    last = max(runs[0].spent["trajectories"])
    values = {
        "after": [run.validated["accuracy"][last] for run in runs],
        **{kind: [run.at(kind) for run in runs] for kind in BUDGETS},
        "best": [run.validated["best_questions"][last] for run in runs],
    }
    cells = [title, str(last)]
    for of_runs in values.values():
        mean = number(over_runs(of_runs), 1)
        cells.append(f"{mean.text()} ± {mean.sd_text()}" if mean.sd_text() else mean.text())
    for kind in BUDGETS:
        spent = over_runs([run.spent[kind][last] for run in runs]).mean
        cells.append(COSTS[kind].number(spent).text())
    return f"| {' | '.join([*cells, runs[0].commit])} |"
