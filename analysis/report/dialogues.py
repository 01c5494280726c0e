"""Consultations to read: the same cases under every method."""

from itertools import islice

from analysis.collected import Collected
from analysis.report.markup import escape

CASES = 3


def consultations(collected: Collected) -> str:
    """Three cases of the development benchmark, each with every method's dialogue."""
    development = collected.study.development
    by_method = {
        method: {
            dialogue["case_id"]: dialogue
            for dialogue in collected.dialogues(method, collected.shown(method), development)
        }
        for method in collected.methods()
    }
    blocks = "".join(
        _case(collected, [(method, found[case]) for method, found in by_method.items()])
        for case in _telling(by_method)
    )
    title = collected.benchmarks[development].title
    return (
        f"<p>The first {CASES} cases of {escape(title)} on which the methods disagree, run "
        f"{collected.run} of each. White: the doctor; blue: the patient.</p>" + blocks
    )


def _telling(by_method: dict[str, dict[str, dict]]) -> list[str]:
    """Case ids on which some method is right and some is wrong; then any others."""

    def agreed(case: str) -> bool:
        return len({bool(found[case]["correct"]) for found in by_method.values()}) == 1

    cases = next(iter(by_method.values()))
    return list(islice(sorted(cases, key=agreed), CASES))


def _case(collected: Collected, dialogues: list[tuple[str, dict]]) -> str:
    first = dialogues[0][1]
    options = "; ".join(f"{label}. {text}" for label, text in first["options"].items())
    doctors = "".join(_doctor(collected.title(method), dialogue) for method, dialogue in dialogues)
    return (
        f"<div class='case'><b>{escape(first['case_id'])}</b>"
        f"<div class='facts'>{escape(first['initial'])} {escape(first['question'])} "
        f"{escape(options)}. Right answer: <b>{escape(first['answer'])}</b>.</div>"
        f"<div class='doctors'>{doctors}</div></div>"
    )


def _doctor(title: str, dialogue: dict) -> str:
    """One method's dialogue."""
    outcome = "right" if dialogue["correct"] else "wrong"
    said = ""
    for turn in dialogue["turns"]:
        said += f"<div class='said actor'>{escape(turn['response'].strip())}</div>"
        if turn.get("answer"):
            said += f"<div class='said patient'>{escape(turn['answer'].strip())}</div>"
    return (
        f"<div class='doctor'><h4><span>{escape(title)}</span>"
        f"<span class='{outcome}'>{outcome}</span></h4>{said}</div>"
    )
