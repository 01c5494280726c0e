"""Consultations of the clinic's doctor, recorded for the trainers' adapters, and their structures.

`python tests/support/recorded_consultations.py` records them anew.
"""

import importlib
import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "tests" / "fixtures" / "trainers"
OWN = "OWN_ENVIRONMENT" in os.environ  # the trainer is there: nothing stands in for it
TRAINERS = json.loads((FIXTURES / "trainers.json").read_text())
CASES = json.loads((FIXTURES / "consultations.json").read_text())["cases"]


def structure(trainer: str, kind: str, **values):
    """An object with the recorded fields of a class and no other; of the class where that is."""
    fields = TRAINERS[trainer]["classes"][kind]
    assert values.keys() <= set(fields)
    if OWN:
        own = getattr(importlib.import_module(TRAINERS[trainer]["module"]), kind)
        return own.model_construct(**values)
    return SimpleNamespace(**dict.fromkeys(fields) | values)


def responses(case):
    """(consultation, turn, candidate, response) of all that was sampled."""
    for c, consultation in enumerate(case["consultations"]):
        for t, turn in enumerate(consultation["turns"]):
            for k, response in enumerate(turn["responses"]):
                yield c, t, k, response


def asks_nothing(response) -> bool:
    """Whether it is a candidate that takes part in the comparison and has no question."""
    return response["question_start"] is None and response["utility"] is not None


def record() -> None:
    """Two cases of the published clinic doctor: two consultations each, two candidates."""
    sys.path.insert(0, str(ROOT / "examples" / "trl"))
    from dataclasses import replace

    from train_clinic import open_clinic

    from pcqc.methods.base import Services

    clinic = open_clinic(1, 24, 1)
    method = replace(clinic.study.method("pcqc"), terminal_group=2, question_group=2)
    batch = method.collect_rollouts(
        Services(None, 3, clinic.scorer), clinic.context, clinic.train, 1
    )
    groups = {(id(g.turn)): g for g in batch.groups}
    cases = []
    for case, row, rewards, outcomes in zip(
        batch.cases, batch.consultations, batch.rewards, batch.advantages, strict=True
    ):
        played = []
        for consultation, reward, outcome in zip(row, rewards, outcomes, strict=True):
            turns, before = [], 0
            for turn in consultation.turns:
                group = groups.get(id(turn))
                rows = [
                    {
                        "tokens": list(r.completion.tokens),
                        "question_start": r.question_start,
                        "utility": group and float(group.utilities[k]),
                        "terminal": float(outcome) if k == 0 else None,
                        "question": float(group.credits[k])
                        if group and r.question_start is not None
                        else None,
                    }
                    for k, r in enumerate(turn.responses if group else turn.responses[:1])
                ]
                turns.append({"context": list(turn.state[before:]), "responses": rows})
                before = len(turn.state) + len(rows[0]["tokens"])
            played.append({"reward": int(reward), "turns": turns})
        cases.append({"case_id": case.case_id, "consultations": played})
    told = {case["case_id"]: [r for *_, r in responses(case)] for case in cases}
    mixed = [
        case
        for case in sorted(cases, key=lambda case: len(json.dumps(case)))
        if len({consultation["reward"] for consultation in case["consultations"]}) == 2
    ]
    silent = next(c for c in mixed if any(map(asks_nothing, told[c["case_id"]])))
    equal = next(c for c in mixed if any(r["question"] == 0 for r in told[c["case_id"]]))
    kept = [silent, equal if equal is not silent else mixed[0]]
    (FIXTURES / "consultations.json").write_text(json.dumps({"cases": kept}) + "\n")


if __name__ == "__main__":
    record()
