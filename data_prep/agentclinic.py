"""AgentClinic's OSCE cases (`agentclinic_medqa.jsonl`): nested notes and an open diagnosis."""

from collections.abc import Iterator
from typing import Any

from data_prep.parts import QUESTION, among_others, make_case
from data_prep.rows import Converted, Origin, check_text, take, take_text

NAME = "agentclinic"
FIELDS = {"OSCE_Examination"}
DIAGNOSIS = ("OSCE_Examination", "Correct_Diagnosis")
TOLD = ("Demographics", "Primary_Symptom")  # what the doctor knows before the first question


def convert(row: dict[str, Any], origin: Origin, line: int) -> Converted:
    """The case of a row: age, sex and first symptom are told, every other note is a fact.

    Raises BadRow.
    """
    notes = take(row, "OSCE_Examination", dict)
    actor, diagnosis = take(notes, "Patient_Actor", dict), take_text(notes, "Correct_Diagnosis")
    case_id = origin.identify(line, line)
    who = take_text(actor, "Demographics")
    case = {
        "case_id": case_id,
        "source": origin.source,
        "initial": f"{who}. {take_text(take(actor, 'Symptoms', dict), 'Primary_Symptom')}",
        "question": QUESTION,
        "origin": {"file": origin.file, "row": line},
        **among_others(diagnosis, origin, case_id),
    }
    found = {
        name: notes.get(name, {}) for name in ("Physical_Examination_Findings", "Test_Results")
    }
    return make_case(case, [*_facts(actor), *_facts(found)], diagnosis)


def _facts(notes: Any, heading: str = "") -> Iterator[str]:
    """Every note as `heading, subheading: text`."""
    if isinstance(notes, dict):
        for name, below in notes.items():
            if name not in TOLD:
                title = name.replace("_", " ")
                yield from _facts(below, f"{heading}, {title}" if heading else title)
    elif isinstance(notes, list):
        for note in notes:
            yield from _facts(note, heading)
    elif isinstance(notes, int | float):
        yield f"{heading}: {notes}"
    elif notes is not None and notes != "":
        yield f"{heading}: {check_text(notes, repr(heading))}"
