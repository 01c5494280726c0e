"""Small run folders made by hand, in the formats that training and evaluation write."""

import dataclasses
from pathlib import Path

import pyarrow
import pyarrow.parquet
import simulated
from hand_made import finish_job, folder_of

from pcqc.settings import Study, Tracking, load_study
from pcqc.system.files import write_json, write_jsonl

OPTIONS = {"A": "Anaemia", "B": "Borreliosis", "C": "Cholera", "D": "Dengue"}
MADE = {
    "git_commit": "0123456789abcdef0123456789abcdef01234567",
    "machine": {"host": "ward", "torch": "2"},
}
QUESTIONS = ["Any fever?", "Any rash?", "Any <cough>?", "Any pain?"]


def make_study(tracking: Tracking | None = None, **changes) -> Study:
    """The clinic with two benchmarks; results lie below the working directory."""
    clinic = dataclasses.replace(load_study(simulated.STUDY), name="clinic")
    names = ["clinic_dev", "clinic_wide"]
    return dataclasses.replace(
        clinic,
        benchmarks={name: clinic.benchmarks[name] for name in names},
        tracking=tracking or Tracking(),
        **changes,
    )


def write_study(study: Study, methods: list[str], runs: str = "ABC", **size) -> None:
    """Write data and the finished runs of some methods."""
    data = folder_of(study, "clinic")
    for name in [*study.benchmarks, "train"]:
        write_jsonl(data / f"{name}.jsonl", [{"case_id": f"{name}-{i}"} for i in range(3)])
    finish_job(study, "clinic")
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
        rows = [_dialogue(name, i) for i in range(3)]
        write_jsonl(folder / f"{name}.jsonl", rows)
        _write_predictions(folder / f"{name}.parquet", name, method, run, rows)
        benchmarks[name] = {
            "cases": 3,
            "accuracy": 2 / 3,
            "turns": 1.0,
            "actor_tokens": 12.0,
            "predictions": f"{name}.parquet",
            "dialogues": f"{name}.jsonl",
        }
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


def _write_training(study: Study, method: str, run: str, updates: int) -> None:
    folder = folder_of(study, "train", method, run)
    events, groups, consultations = [], [], []
    for update in range(1, updates + 1):
        numbers = {f"measure/{i}": (update * (i + 1)) % 7 / 7 for i in range(3)}
        numbers["reward/mean"] = (update + study.seed(run)) / 8
        events.append(
            {
                "kind": "update",
                "update": update,
                "time": f"2026-01-31T12:{update // 6:02}:{10 * update % 60:02}+00:00",
                "device_hours": update / 3600,
                **numbers,
            }
        )
        group, consultation = _credited(update)
        groups.append(group)
        consultations.append(consultation)
    validation = {"kind": "validation", "update": updates, "time": events[-1]["time"]}
    events.append(validation | {"accuracy": 0.7, "turns": 1.0})
    write_jsonl(folder / "events.jsonl", events)
    write_jsonl(folder / "consultations.jsonl", consultations)
    if hasattr(study.method(method), "question_group"):
        write_jsonl(folder / "candidate_groups.jsonl", groups)
    write_jsonl(folder / "validation" / f"{updates:06}.jsonl", consultations)
    rows = [_dialogue(study.development, i) for i in range(3)]
    predictions = folder / "validation" / f"{updates:06}.parquet"
    _write_predictions(predictions, study.development, method, run, rows)
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


def _credited(update: int) -> tuple[dict, dict]:
    """A candidate group, and the consultation that continued with its first candidate."""
    utilities = [0.62, 0.31, 0.44, 0.31]
    mean, spread = 0.42, 0.1469
    candidates = [
        {
            "response": f"Question: {question}",
            "question": question,
            "answer": "Yes.",
            "utility": utility,
            "gain": utility - 0.30,
            "credit": (utility - mean) / spread,
            "executed": place == 0,
            "supervised": True,
        }
        for place, (question, utility) in enumerate(zip(QUESTIONS, utilities, strict=True))
    ]
    dialogue = _dialogue("train", update)
    group = {
        "update": update,
        "case_id": dialogue["case_id"],
        "turn": 1,
        "baseline": 0.30,
        "spread": spread,
        "initial": dialogue["initial"],
        "options": OPTIONS,
        "answer_label": "B",
        "history": [],
        "candidates": candidates,
    }
    extra = {"update": update, "rollout": 0, "reward": 1.0, "advantage": 0.5}
    return group, dialogue | extra


def _dialogue(source: str, number: int) -> dict:
    return {
        "case_id": f"{source}-{number}",
        "initial": "A patient of 40 feels unwell.",
        "question": "What is the diagnosis?",
        "options": OPTIONS,
        "turns": [
            {
                "response": f"Question: {QUESTIONS[0]}",
                "action": "question",
                "question": QUESTIONS[0],
                "answer": "Yes.",
            },
            {"response": "Final Answer: B", "action": "final", "question": None, "answer": None},
        ],
        "predicted": "B",
        "answer": "B",
        "correct": True,
        "ending": "answer",
        "actor_tokens": 12,
    }


def _write_predictions(path: Path, benchmark: str, method: str, run: str, rows: list[dict]) -> None:
    table = pyarrow.Table.from_pylist(
        [
            {
                "case_id": row["case_id"],
                "benchmark": benchmark,
                "method": method,
                "run": run,
                "update": 4,
                "correct": row["correct"],
                "predicted": row["predicted"],
                "answer": row["answer"],
                "turns": 1,
                "actor_tokens": 12,
                "ending": row["ending"],
            }
            for row in rows
        ]
    )
    pyarrow.parquet.write_table(table, path)
