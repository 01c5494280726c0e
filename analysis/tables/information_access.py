"""What each role sees while question credit is built, found out from the prompts themselves.

A role sees an item if changing the item changes the role's prompt. The prompts are built by
`pcqc.cases.prompts`, which the roles use in training and evaluation.
"""

from dataclasses import dataclass, replace

from analysis.collected import Collected
from analysis.published import published
from analysis.table import MISSING, Column, Row, Table
from analysis.tables.layout import Words
from pcqc.cases.case import Case
from pcqc.cases.prompts import (
    Exchange,
    actor_prompt,
    parse_action,
    patient_prompt,
    scorer_prompt,
)

NAME = "information_access"
ITEMS = {
    "observed": "O_t",
    "question": "q_i",
    "facts": "Patient facts z",
    "task": "Task",
    "answer": "y*",
}
ROLES = {
    "actor": "Actor",
    "patient": "Patient responder",
    "scorer": "Diagnostic scorer",
    "utility": "Utility extraction",
}
_NOTE = (
    "Task: the clinical decision question and its answer options. The scorer reads the observed "
    "dialogue with the candidate question and its answer; y* picks the correct option's "
    "probability afterwards."
)


@dataclass(frozen=True)
class _Probe:
    """A case and a candidate question, of which single items can be changed."""

    case: Case
    question: str = "a question?"

    def prompts(self) -> dict[str, str]:
        case = self.case
        exchange = Exchange(self.question, "an answer")
        return {
            "actor": actor_prompt(case.public),
            "patient": patient_prompt(case.facts, self.question),
            "scorer": scorer_prompt(case.public, [exchange]),
        }


def build(collected: Collected) -> Table:
    """Yes or no from the prompts; the actor writes the question and so is never shown it."""
    del collected  # the roles' prompts are the same in every study
    case = Case("probe", "probe", "complaint", "task?", {"A": "one", "B": "two"}, ("fact",), "A")
    probe = _Probe(case)
    changed = {
        "observed": replace(probe, case=replace(case, initial="other complaint")),
        "question": replace(probe, question="another question?"),
        "facts": replace(probe, case=replace(case, facts=("other fact",))),
        "task": replace(probe, case=replace(case, question="other task?")),
        "answer": replace(probe, case=replace(case, answer="B")),
    }
    before = probe.prompts()
    access = {
        role: {
            item: "Yes" if variant.prompts()[role] != before[role] else "No"
            for item, variant in changed.items()
        }
        for role in before
    }
    said = parse_action(f"Question: {probe.question}", case.public.labels)
    if (said.kind, said.text) == ("question", probe.question):
        access["actor"]["question"] = "Generates"
    access["utility"] = dict.fromkeys(ITEMS, MISSING) | {"answer": "Index"}
    words = Words(
        NAME,
        "Information access during question-credit construction.",
        "Yes or No: whether a component's prompt depends on an item, tested on the prompts that "
        "it is given. Generates: the item is read from the component's own response. Utility "
        "extraction has no prompt; its row states what the code does.",
        (_NOTE,),
    )
    return _layout(words, access)


def paper() -> Table:
    """The published table."""
    words = Words(
        NAME, "Information access during question-credit construction in the paper.", "", (_NOTE,)
    )
    return _layout(words, published().tables[NAME])


def _layout(words: Words, access: dict[str, dict[str, str]]) -> Table:
    columns = [Column("component", "Component", numeric=False)]
    columns += [Column(item, title, numeric=False) for item, title in ITEMS.items()]
    rows = [
        Row(role, (title, *(access[role][item] for item in ITEMS))) for role, title in ROLES.items()
    ]
    return words.table(columns, rows)
