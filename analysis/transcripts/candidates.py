"""What was compared at a state of a consultation: rows of a small table, and why in words.

PCQC and its controls compare candidate questions, ATPO the branches of its tree. A column is
(title, digits, whether a sign is shown); the page shows what it is given.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from pcqc.cases.prompts import visible
from pcqc.study import Method
from pcqc.tracking.traces import children, path_of
from turn_credit.arithmetic import executed_local_credit, same_state_credit

Turns = list[dict[str, Any]]
# Value of a question in the clinic after some turns; None elsewhere.
Value = Callable[[Turns, str | None], float | None] | None

UTILITY, GAIN, CREDIT = ("Utility", 3, False), ("Gain", 3, True), ("Credit", 2, True)
SAME_STATE = ("Same-state credit", 2, True)
EXECUTED_LOCAL = ("Executed-local credit", 2, True)
EXACT = ("Exact value", 3, False)
BRANCH = (("Critic's value", 3, False), ("Backed-up value", 3, False), ("Visits", 0, False))
ADVANTAGE = ("Advantage", 2, True)
CONTINUED = ("Ended right", 2, False)


class Groups:
    """A run's candidate groups, with the credit that other rules would have given.

    Args:
        method: whose run it is.
        rows: of `candidate_groups.jsonl`.
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
        columns: list[tuple] = [UTILITY, GAIN, CREDIT]
        numbers = [[c["utility"] for c in candidates], [c["gain"] for c in candidates]]
        numbers.append([c["credit"] for c in candidates])
        if self.method.rule != "same state" or self.method.trained_candidates == 1:
            columns.append(SAME_STATE)
            numbers.append(list(same_state_credit(np.array(numbers[1]))))
        if self.method.rule != "executed, local":
            columns.append(EXECUTED_LOCAL)
            numbers.append([self.local[id(group)], *[None] * (len(candidates) - 1)])
        _add_exact(columns, numbers, turns, [c["question"] for c in candidates], value)
        return {
            "title": f"{len(candidates)} candidates",
            "about": self.method.why(group, candidates[0]),
            "columns": columns,
            "rows": [
                _row(c, c["executed"], "" if c["supervised"] else "not supervised")
                for c in candidates
            ],
            "numbers": _by_row(numbers),
        }


class Trees:
    """Trees that a run of ATPO searched; the branches at the states of a consultation.

    Args:
        rows: of `trees.jsonl`.
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
        columns: list[tuple] = [*BRANCH, ADVANTAGE]
        keys = ("value", "backed_up", "visits", "advantage")
        numbers = [[nodes[i][key] for i in siblings] for key in keys]
        questions = [nodes[i]["question"] for i in siblings]
        _add_exact(columns, numbers, row["turns"][:number], questions, value)
        return {
            "title": f"{len(siblings)} branches of the tree",
            "about": "The advantage of a turn is what its tokens learned from; a pruned branch was "
            "not searched further.",
            "columns": columns,
            "rows": [
                _row(nodes[i], i == taken, "pruned" if nodes[i]["pruned"] else "") for i in siblings
            ],
            "numbers": _by_row(numbers),
        }


def continued(candidates: list[dict], value: Value) -> dict:
    """The continuation study's candidates at a case's initial state.

    Args:
        candidates: of one case, each with `success`, the share of its continuations that ended
            right.
        value: of a question in the clinic.
    """
    columns: list[tuple] = [UTILITY, CREDIT, CONTINUED]
    numbers = [[c["utility"] for c in candidates], [c["credit"] for c in candidates]]
    numbers.append([c["success"] for c in candidates])
    _add_exact(columns, numbers, [], [c["question"] for c in candidates], value)
    return {
        "title": f"{len(candidates)} questions of the continuation study",
        "about": "The continuation study drew these questions at the initial state, and went on "
        "from each of them several times.",
        "columns": columns,
        "rows": [_row(c, False, "") for c in candidates],
        "numbers": _by_row(numbers),
    }


def _add_exact(columns: list, numbers: list, turns: Turns, questions: list, value: Value) -> None:
    if value:
        columns.append(EXACT)
        numbers.append([value(turns, question) for question in questions])


def _row(candidate: dict, executed: bool, remark: str) -> list:
    """What was said, the answer, whether it was executed here, and what else there is to say."""
    text = candidate["question"] or f"(no question) {visible(candidate['response']).strip()}"
    return [text, candidate["answer"], executed, remark]


def _by_row(columns: list[list]) -> list[list]:
    """Numbers of each row, rounded: the page shows three digits."""
    rows = zip(*columns, strict=True)
    return [[None if x is None else round(float(x), 4) for x in row] for row in rows]
