"""One consultation per case under the shared sampling schedule, and what is kept of it."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pcqc.cases import Case
from pcqc.consultation import Consultation, Setting, require_answers, roll_out
from pcqc.errors import UserError
from pcqc.files import write_atomic, write_jsonl

SCHEMA = pa.schema(
    [
        ("case_id", pa.string()),
        ("benchmark", pa.string()),
        ("method", pa.string()),
        ("run", pa.string()),
        ("update", pa.int64()),
        ("correct", pa.bool_()),
        ("predicted", pa.string()),
        ("answer", pa.string()),
        ("turns", pa.int64()),
        ("actor_tokens", pa.int64()),
        ("ending", pa.string()),
    ]
)
CASES_AT_ONCE = 256


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
        buffer = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(self.predictions, SCHEMA), buffer)
        write_atomic(predictions, buffer.getvalue())
        if dialogues is not None:
            write_jsonl(dialogues, self.dialogues)


def evaluate(
    setting: Setting, cases: Sequence[Case], *, seed: int, benchmark: str, labels: dict
) -> Evaluation:
    """Evaluate a policy: one consultation per case (Appendix A.3).

    Args:
        setting: roles and rules.
        cases: of the benchmark.
        seed: of the sampling schedule, shared by all methods and runs.
        benchmark: its name; part of the schedule.
        labels: `method`, `run` and `update`, copied into every prediction.

    Raises:
        UserError: the patient, served elsewhere, failed.
    """
    predictions, dialogues = [], []
    for start in range(0, len(cases), CASES_AT_ONCE):
        part = cases[start : start + CASES_AT_ONCE]
        rolled = roll_out(setting, part, rollouts=1, seed=seed, stage=f"evaluation/{benchmark}")
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
                "question": turn.executed.action.text
                if turn.executed.action.kind == "question"
                else None,
                "answer": turn.executed.answer,
            }
            for turn in consultation.turns
        ],
        "predicted": consultation.predicted,
        "answer": case.answer,
        "correct": consultation.predicted == case.answer,
        "ending": consultation.ending,
        "actor_tokens": consultation.actor_tokens,
    }


def read_predictions(path: Path) -> pa.Table:
    """Predictions of a Parquet file; UserError where it is truncated or lacks columns."""
    try:
        table = pq.read_table(path)
    except FileNotFoundError:
        raise UserError(f"{path}: no predictions there; run the evaluation rule") from None
    except (pa.ArrowInvalid, OSError) as problem:
        reason = str(problem).splitlines()[0]
        raise UserError(f"{path}: not whole Parquet ({reason}); delete it and rerun") from None
    if missing := set(SCHEMA.names) - set(table.column_names):
        raise UserError(f"{path}: lacks the column '{min(missing)}'; delete it and rerun")
    return table
