"""One consultation per case under the shared sampling schedule, and what is kept of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from pcqc.cases.case import Case
from pcqc.consultation import Consultation, RolloutContext, require_answers, roll_out
from pcqc.evaluation.predictions import SCHEMA, write_table
from pcqc_base.system.files import write_jsonl

CASES_AT_ONCE = 256  # of each process


@dataclass(frozen=True)
class Evaluation:
    """Predictions (rows of `SCHEMA`) and dialogues of one policy on one benchmark."""

    predictions: list[dict]
    dialogues: list[dict]

    def summary(self) -> dict:
        """Cases, accuracy (a fraction), mean inquiry turns (Q/ep.) and actor tokens."""
        count = len(self.predictions)
        return {
            "cases": count,
            "accuracy": sum(p["correct"] for p in self.predictions) / count,
            "turns": sum(p["turns"] for p in self.predictions) / count,
            "actor_tokens": sum(p["actor_tokens"] for p in self.predictions) / count,
        }

    def write(self, predictions: Path, dialogues: Path | None = None) -> None:
        """Write the Parquet file and, where asked, the dialogues as JSONL."""
        write_table(predictions, pa.Table.from_pylist(self.predictions, SCHEMA))
        if dialogues is not None:
            write_jsonl(dialogues, self.dialogues)


def evaluate(
    context: RolloutContext, cases: Sequence[Case], *, seed: int, benchmark: str, labels: dict
) -> Evaluation:
    """Evaluate a policy: one consultation per case (app:evaluation_protocol).

    Args:
        context: roles and rules.
        cases: the benchmark's.
        seed: the sampling schedule's, shared by all methods and runs.
        benchmark: its name; part of the schedule.
        labels: `method`, `run` and `update`, copied into every prediction.

    Raises:
        UserError: the patient, served elsewhere, failed.
    """
    predictions, dialogues = [], []
    at_once = CASES_AT_ONCE * context.actor.engine.processes.count
    for start in range(0, len(cases), at_once):
        part = cases[start : start + at_once]
        rolled = roll_out(context, part, rollouts=1, seed=seed, stage=f"evaluation/{benchmark}")
        require_answers(consultation for (consultation,) in rolled)
        for case, (consultation,) in zip(part, rolled, strict=True):
            row = dialogue_row(case, consultation)
            dialogues.append(row)
            outcome = {key: row[key] for key in ("correct", "predicted", "answer", "ending")}
            predictions.append(
                {"case_id": case.case_id, "benchmark": benchmark, **labels, **outcome}
                | {"turns": consultation.inquiry_turns, "actor_tokens": consultation.actor_tokens}
            )
    return Evaluation(predictions, dialogues)


def dialogue_row(case: Case, consultation: Consultation) -> dict:
    """A consultation as plain data, to be read by people and by the analysis."""
    return {
        "case_id": case.case_id,
        "initial": case.initial,
        "question": case.question,
        "options": case.options,
        "turns": [
            {
                "response": turn.executed.text,
                "action": turn.executed.action.kind,
                "question": turn.executed.action.question,
                "answer": turn.executed.answer,
            }
            for turn in consultation.turns
        ],
        "predicted": consultation.predicted,
        "answer": case.answer,
        "correct": consultation.is_correct(case),
        "ending": consultation.ending,
        "actor_tokens": consultation.actor_tokens,
    }
