"""What each role sees while question credit is built, tested on the prompts themselves.

A role sees an item if changing the item changes the role's prompt. The prompts are built by
`pcqc.cases.prompts`, which the roles use in training and evaluation.
"""

from dataclasses import replace

from analysis.collected import Collected
from analysis.table import MISSING, Column, Row, Table
from pcqc.cases.case import Case
from pcqc.cases.prompts import (
    Exchange,
    actor_prompt,
    parse_action,
    patient_prompt,
    scorer_prompt,
)

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
NOTE = (
    "Task: the clinical decision question and its answer options. The scorer reads the observed "
    "dialogue with the candidate question and its answer; y* picks the correct option's "
    "probability afterwards."
)


def _prompts(
    case: Case, question: str = "a question?", earlier: str = "an earlier answer"
) -> dict[str, str]:
    """Role -> its prompt after one exchange, where a candidate question has its answer."""
    exchanges = [Exchange("an earlier question?", earlier), Exchange(question, "an answer")]
    return {
        "actor": actor_prompt(case.public),
        "patient": patient_prompt(case.facts, question),
        "scorer": scorer_prompt(case.public, exchanges),
    }


def build(collected: Collected) -> Table:
    """Yes or no from the prompts; the actor writes the question and so is never shown it."""
    del collected  # the roles' prompts are the same in every study
    case = Case("probe", "probe", "complaint", "task?", {"A": "one", "B": "two"}, ("fact",), "A")
    before = _prompts(case)
    changed = {
        "observed": _prompts(replace(case, initial="other complaint")),
        "question": _prompts(case, "another question?"),
        "facts": _prompts(replace(case, facts=("other fact",))),
        "task": _prompts(replace(case, question="other task?")),
        "answer": _prompts(replace(case, answer="B")),
    }
    access = {
        role: {item: "Yes" if after[role] != prompt else "No" for item, after in changed.items()}
        for role, prompt in before.items()
    }
    if _prompts(case, earlier="another earlier answer")["scorer"] == before["scorer"]:
        access["scorer"]["observed"] = "In part"
    action = parse_action("Question: a question?", case.public.labels)
    if (action.kind, action.text) == ("question", "a question?"):
        access["actor"]["question"] = "Generates"
    access["utility"] = dict.fromkeys(ITEMS, MISSING) | {"answer": "Index"}
    columns = (
        Column("component", "Component", numeric=False),
        *(Column(item, title, numeric=False) for item, title in ITEMS.items()),
    )
    rows = tuple(
        Row(role, (title, *(access[role][item] for item in ITEMS))) for role, title in ROLES.items()
    )
    caption = (
        "What each component sees. Yes or No: whether its prompt changes when the item changes, "
        "tested on the prompts themselves. Of the dialogue state O_t the initial information is "
        "changed, for the scorer an earlier exchange too; the actor's later states continue its "
        "first prompt, token by token. Generates: the component itself writes the item. Utility "
        "extraction has no prompt; its row says what the code does."
    )
    title = "Information access during question-credit construction."
    return Table("information_access", title, caption, columns, rows, (NOTE,))
