"""symptomcheck-bench's vignettes (`avey_vignettes.jsonl`): a presentation and an open diagnosis."""

import re
from typing import Any

from data_prep.parts import open_case
from data_prep.rows import Converted, Origin, take, take_text

NAME = "symptomcheck"
FIELDS = {"correct_diagnosis", "demographics", "chief_complaints", "presentation"}
DIAGNOSIS = ("correct_diagnosis",)
HISTORY = ("physical_history", "family_history", "social_history")
READ = FIELDS | {"absent_findings", *HISTORY}
NONE = ("", "-", "none")
_SENTENCE = re.compile(r"(?<=[.?!])\s+")
_FINDING = re.compile(r"\s*,\s*(?=No )|(?<=\.)\s+")


def convert(row: dict[str, Any], origin: Origin, line: int) -> Converted:
    """The case of a row: age, sex and complaints are told; the patient knows the rest.

    Raises BadRow.
    """
    diagnosis = take_text(row, "correct_diagnosis")
    initial = f"{take_text(row, 'demographics')}. {take_text(row, 'chief_complaints')}"
    facts = _SENTENCE.split(take_text(row, "presentation").strip())
    facts += _FINDING.split(take(row, "absent_findings", str).strip())
    for name in HISTORY:
        text = take(row, name, str).strip()
        if text.lower().strip(".") not in NONE:
            facts.append(f"{name.replace('_', ' ').capitalize()}: {text}")
    return open_case(origin, line, initial, [fact for fact in facts if fact], diagnosis)
