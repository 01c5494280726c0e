"""What was compared at a state of a consultation: rows of a small table, and why in words.

PCQC and its controls compare candidate questions, ATPO the branches of its tree. A column is
(title, digits, whether a sign is shown); the page shows what it is given.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from pcqc.cases.prompts import visible
from pcqc_base.settings import Method
from pcqc_study import describe
from turn_credit.arithmetic import executed_local_credit, same_state_credit

Turns = list[dict[str, Any]]
# Value of a question in the clinic after some turns; None elsewhere.
Value = Callable[[Turns, str | None], float | None] | None

Heading = tuple[str, int, bool]
UTILITY, GAIN, CREDIT = ("Utility", 3, False), ("Gain", 3, True), ("Credit", 2, True)
SAME_STATE = ("Same-state credit", 2, True)
EXECUTED_LOCAL = ("Executed-local credit", 2, True)
EXACT = ("Exact value", 3, False)
BRANCH = {  # of a node of ATPO's tree
    "value": ("Critic's value", 3, False),
    "backed_up": ("Backed-up value", 3, False),
    "visits": ("Visits", 0, False),
    "advantage": ("Advantage", 2, True),
}
CONTINUED = ("Ended right", 2, False)


class Groups:
    """A run's candidate groups, with the credit that other rules would have given.

    Args:
        method: whose run it is.
        rows: those of `candidate_groups.jsonl`.
    """

    def __init__(self, method: Method, rows: Iterable[dict]):
        self.method = method
        self.by_case: dict[tuple[int, str], list[dict]] = defaultdict(list)
        by_update: dict[int, list[dict]] = defaultdict(list)
        for row in rows:
            self.by_case[row["update"], row["case_id"]].append(row)
            by_update[row["update"]].append(row)
        self.local: dict[int, float] = {}  # by identity: a group is of one state
        for groups in by_update.values():
            gains = [group["candidates"][0]["gain"] for group in groups]
            for group, credit in zip(groups, executed_local_credit(gains), strict=True):
                self.local[id(group)] = float(credit)

    def at(self, row: dict, number: int, value: Value) -> dict | None:
        """What was compared before a turn of a sampled consultation; None where nothing was."""
        turns = row["turns"][:number]
        exchanges = [(t["question"], t["answer"]) for t in turns if t["action"] == "question"]
        for group in self.by_case[row["update"], row["case_id"]]:
            history = [(t["question"], t["answer"]) for t in group["history"]]
            executed = group["candidates"][0]
            if history == exchanges and executed["response"] == row["turns"][number]["response"]:
                return self._compared(group, turns, value)
        return None

    def _compared(self, group: dict, turns: Turns, value: Value) -> dict:
        candidates = group["candidates"]
        columns = {
            heading: [candidate[key] for candidate in candidates]
            for heading, key in ((UTILITY, "utility"), (GAIN, "gain"), (CREDIT, "credit"))
        }
        if describe.rule(self.method) != describe.SAME_STATE or self.method.trained_candidates == 1:
            columns[SAME_STATE] = list(same_state_credit(np.array(columns[GAIN])))
        if describe.rule(self.method) != describe.ACROSS_STATES:
            columns[EXECUTED_LOCAL] = [self.local[id(group)], *[None] * (len(candidates) - 1)]
        title = f"{len(candidates)} candidates"
        rows = [(c, c["executed"], "" if c["supervised"] else "not supervised") for c in candidates]
        return _state(
            title, describe.why(self.method, group, candidates[0]), columns, rows, turns, value
        )


class Trees:
    """Trees that a run of ATPO searched; the branches at the states of a consultation.

    Args:
        rows: those of `trees.jsonl`.
    """

    def __init__(self, rows: Iterable[dict]):
        self.by_case = {(row["update"], row["case_id"]): row["nodes"] for row in rows}

    def at(self, row: dict, number: int, value: Value) -> dict | None:
        """The branches at a state of a sampled consultation; None where its tree is not kept."""
        nodes = self.by_case.get((row["update"], row["case_id"]), [])
        path = path_of(nodes, [turn["response"] for turn in row["turns"]])
        if not path:
            return None
        taken = path[number]
        siblings = children(nodes, nodes[taken]["parent"])
        columns = {heading: [nodes[i][key] for i in siblings] for key, heading in BRANCH.items()}
        title = f"{len(siblings)} branches of the tree"
        about = (
            "The advantage of a turn is what its tokens learned from; a pruned branch was not "
            "searched further."
        )
        rows = [(nodes[i], i == taken, "pruned" if nodes[i]["pruned"] else "") for i in siblings]
        return _state(title, about, columns, rows, row["turns"][:number], value)


def path_of(nodes: Sequence[dict], responses: Sequence[str]) -> list[int]:
    """Index of the node after each response of a consultation; none where it is not in the tree.

    Branches of a state may have equal responses: the whole consultation says which was taken, and
    of equal paths it is the one that was visited most.
    """
    paths = [[0]]
    for response in responses:
        paths = [
            [*path, child]
            for path in paths
            for child in children(nodes, path[-1])
            if nodes[child]["response"] == response
        ]
    return max(paths, key=lambda path: nodes[path[-1]]["visits"], default=[0])[1:]


def children(nodes: Sequence[dict], parent: int) -> list[int]:
    """Indices of the nodes right below a node."""
    return [i for i, node in enumerate(nodes) if node["parent"] == parent]


def continued(candidates: list[dict], value: Value) -> dict:
    """The continuation study's candidates at a case's initial state.

    Args:
        candidates: one case's, each with `success`, the share of its continuations that ended
            right.
        value: the exact value of a question in the clinic.
    """
    columns = {
        heading: [candidate[key] for candidate in candidates]
        for heading, key in ((UTILITY, "utility"), (CREDIT, "credit"), (CONTINUED, "success"))
    }
    title = f"{len(candidates)} questions of the continuation study"
    about = (
        "The continuation study drew these questions at the initial state, and went on from each "
        "of them several times."
    )
    return _state(title, about, columns, [(c, False, "") for c in candidates], [], value)


def _state(
    title: str,
    about: str,
    columns: dict[Heading, list],
    rows: list[tuple[dict, bool, str]],
    turns: Turns,
    value: Value,
) -> dict:
    """What the page shows of a state.

    Args:
        title, about: the table's.
        columns: heading -> a number or None for each row.
        rows: a candidate, whether it was executed here, and a remark.
        turns: before the state.
        value: the exact value of a question in the clinic.
    """
    if value:
        columns = {**columns, EXACT: [value(turns, c["question"]) for c, *_ in rows]}
    texts = [
        [c["question"] or f"(no question) {visible(c['response']).strip()}", c["answer"], *others]
        for c, *others in rows
    ]
    # The page shows three digits.
    numbers = [
        [None if x is None else round(float(x), 4) for x in row]
        for row in zip(*columns.values(), strict=True)
    ]
    headings = list(columns)
    return {"title": title, "about": about, "columns": headings, "rows": texts, "numbers": numbers}
