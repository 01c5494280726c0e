"""AgentClinic's OSCE cases (`agentclinic_medqa.jsonl`): nested notes and an open diagnosis."""

from collections.abc import Iterator
from typing import Any

from data_prep.parts import open_case
from data_prep.rows import Converted, Origin, check_text, take, take_text

NAME = "agentclinic"
FIELDS = {"OSCE_Examination"}
FINDINGS = ("Physical_Examination_Findings", "Test_Results")
READ = {f"OSCE_Examination.{n}" for n in ("Patient_Actor", "Correct_Diagnosis", *FINDINGS)}
DIAGNOSIS = ("OSCE_Examination", "Correct_Diagnosis")
TOLD = ("Demographics", "Primary_Symptom")  # what the doctor knows before the first question


def convert(row: dict[str, Any], origin: Origin, line: int) -> Converted:
    """The case of a row: age, sex and first symptom are told, every other note is a fact.

    Raises BadRow.
    """
    notes = take(row, "OSCE_Examination", dict)
    actor, diagnosis = take(notes, "Patient_Actor", dict), take_text(notes, "Correct_Diagnosis")
    who, symptoms = take_text(actor, "Demographics"), take(actor, "Symptoms", dict)
    initial = f"{who}. {take_text(symptoms, 'Primary_Symptom')}"
    findings = {name: notes.get(name, {}) for name in FINDINGS}
    return open_case(origin, line, initial, [*_facts(actor), *_facts(findings)], diagnosis)


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
