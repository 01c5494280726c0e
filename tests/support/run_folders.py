"""Small run folders made by hand, in the formats that training and evaluation write."""

import dataclasses

import simulated
from hand_made import (
    asked,
    candidate_group,
    clinic_file,
    concluded,
    dialogue,
    evaluation,
    finish_clinic,
    finish_job,
    folder_of,
)
from helpers import make_case

from pcqc.cases.case import Case
from pcqc.evaluation.benchmark import Evaluation
from pcqc.logged.updates import EVENTS, TIMES, apart
from pcqc_base.settings.tracking import Tracking
from pcqc_base.system.files import write_json, write_jsonl
from pcqc_study.study_file import Study, load_study

MADE = {
    "git_commit": "0123456789abcdef0123456789abcdef01234567",
    "machine": {"host": "ward", "torch": "2"},
}
QUESTIONS = [
    asked(question, "Yes.") for question in ("Any fever?", "Any rash?", "Any <cough>?", "Any pain?")
]


def _case(source: str, number: int) -> Case:
    return make_case(number, case_id=f"{source}-{number}")


def make_study(tracking: Tracking | None = None, **changes) -> Study:
    """The clinic with two benchmarks and nothing continued, below the working directory."""
    clinic = dataclasses.replace(load_study(simulated.STUDY), name="clinic")
    names = ["clinic_dev", "clinic_wide"]
    return dataclasses.replace(
        clinic,
        benchmarks={name: clinic.benchmarks[name] for name in names},
        tracking=tracking or Tracking(),
        continuation=None,
        **changes,
    )


def write_study(study: Study, methods: list[str], runs: str = "ABC", **size) -> None:
    """Write data and the finished runs of some methods."""
    for name in [*study.benchmarks, "train"]:
        write_jsonl(clinic_file(study, name), [{"case_id": f"{name}-{i}"} for i in range(3)])
    finish_clinic(study)
    for method in methods:
        for run in runs:
            if run in study.method(method).runs:
                write_run(study, method, run, **size)


def write_run(study: Study, method: str, run: str, updates: int = 4) -> None:
    """Write one finished run: its training, where it has one, and its evaluation."""
    if study.method(method).kind == "rl":
        _write_training(study, method, run, updates)
    folder = folder_of(study, "evaluate", method, run)
    benchmarks = {}
    for name in study.benchmarks:
        made = _evaluate(name, method, run)
        files = {"predictions": f"{name}.parquet", "dialogues": f"{name}.jsonl"}
        made.write(*(folder / file for file in files.values()))
        benchmarks[name] = made.summary() | files
    write_json(
        folder_of(study, "select", method, run) / "selection.json",
        {
            "benchmark": "clinic_dev",
            "criterion": "accuracy",
            "selected": {"update": updates, "accuracy": 0.7},
            "rejected": [{"update": 2, "accuracy": 0.6, "turns": 1.0, "reason": "less accurate"}],
        },
    )
    finish_job(study, "select", method, run)
    entries = {
        "update": updates,
        "checkpoint": f"checkpoints/{updates:06}",
        "benchmarks": benchmarks,
        "begun": "2026-01-31T12:01:00+00:00",
        "finished": "2026-01-31T12:01:30+00:00",
    }
    finish_job(study, "evaluate", method, run, entries=MADE | entries)


def _evaluate(benchmark: str, method: str, run: str) -> Evaluation:
    """Two of three cases are right."""
    rows = [
        dialogue(_case(benchmark, i), [QUESTIONS[0], concluded(label)], label)
        for i, label in enumerate("BBC")
    ]
    return evaluation(rows, benchmark=benchmark, method=method, run=run, update=4)


def _write_training(study: Study, method: str, run: str, updates: int) -> None:
    folder = folder_of(study, "train", method, run)
    events, groups, consultations = [], [], []
    for update in range(1, updates + 1):
        seconds = f"{update // 6:02}:{10 * update % 60:02}"
        numbers = {f"measure/{i}": (update * (i + 1)) % 7 / 7 for i in range(3)}
        numbers["reward/mean"] = (update + study.seed(run)) / 8
        events.append(
            {
                "kind": "update",
                "update": update,
                "time": f"2026-01-31T12:{seconds}+00:00",
                "device_hours": update / 3600,
                **numbers,
            }
        )
        case, of = _case("train", update), {"update": update}
        groups.append(_group(case, **of))
        turns, credit = [QUESTIONS[0], concluded("B")], {"reward": 1.0, "advantage": 0.5}
        consultations.append(dialogue(case, turns, "B", **of, rollout=0, **credit))
    validation = {"kind": "validation", "update": updates, "time": events[-1]["time"]}
    events.append(validation | {"accuracy": 0.7, "turns": 1.0})
    for number, name in enumerate((EVENTS, TIMES)):
        write_jsonl(folder / f"{name}.jsonl", [apart(event)[number] for event in events])
    write_jsonl(folder / "consultations.jsonl", consultations)
    if hasattr(study.method(method), "question_group"):
        write_jsonl(folder / "candidate_groups.jsonl", groups)
    validated = folder / "validation" / f"{updates:06}"
    write_jsonl(validated.with_suffix(".jsonl"), consultations)
    _evaluate(study.development, method, run).write(validated.with_suffix(".parquet"))
    # Weights lie beside the records, and are never mirrored.
    (folder / "checkpoints").mkdir(parents=True, exist_ok=True)
    (folder / "checkpoints" / "weights").write_bytes(b"weights")
    entries = {
        "updates": updates,
        "ended": "all updates",
        "checkpoints": [],
        "totals": {
            "trajectories": 16 * updates,
            "actor_tokens": 99,
            "sampled_tokens": 140,
            "scored_tokens": 200,
            "device_seconds": 3.5,
        },
        "begun": "2026-01-31T12:00:00+00:00",
        "finished": "2026-01-31T12:00:50+00:00",
    }
    finish_job(study, "train", method, run, entries=MADE | entries)


def _group(case: Case, update: int) -> dict:
    """Utilities with the mean 0.42 and the deviation 0.1467."""
    state = {"update": update, "case_id": case.case_id, "turn": 1, "initial": case.initial}
    shown = {"options": case.options, "answer_label": case.answer}
    return candidate_group(QUESTIONS, (0.62, 0.31, 0.44, 0.31), baseline=0.30, **state, **shown)
