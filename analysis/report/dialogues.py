"""Consultations to read: the same cases under every method."""

from typing import Any

from analysis.collected import Collected

CASES = 3


def consultations(collected: Collected) -> dict[str, Any]:
    """The first cases of the development benchmark on which the methods disagree."""
    development = collected.study.development
    by_method = {
        collected.title(method): {
            dialogue["case_id"]: dialogue
            for dialogue in collected.dialogues(method, collected.shown(method), development)
        }
        for method in collected.methods()
    }
    cases = []
    for case in _first_disagreements(by_method):
        dialogues = [(title, by_case[case]) for title, by_case in by_method.items()]
        cases.append({"first": dialogues[0][1], "dialogues": dialogues})
    title = collected.benchmarks[development].title
    return {"cases": cases, "benchmark": title, "name": development, "run": collected.run}


def _first_disagreements(by_method: dict[str, dict[str, dict]]) -> list[str]:
    """Case ids on which some method is right and some is wrong; then any others."""

    def agreed(case: str) -> bool:
        return len({bool(by_case[case]["correct"]) for by_case in by_method.values()}) == 1

    return sorted(next(iter(by_method.values())), key=agreed)[:CASES]
