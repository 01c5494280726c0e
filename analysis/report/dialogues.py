"""Consultations to read: the same cases under every method, and one candidate group."""

from itertools import islice
from pathlib import Path

from analysis.collected import Collected
from analysis.report.markup import escape, simple_table
from analysis.table import MISSING, Number
from pcqc.files import read_jsonl

CASES = 3
RUN = "A"


def consultations(collected: Collected) -> str:
    """Three cases of the development benchmark, each with every method's dialogue (run A)."""
    development = collected.study.development
    by_method = {
        method: {d["case_id"]: d for d in collected.dialogues(method, RUN, development)}
        for method in collected.methods()
    }
    blocks = "".join(
        _case(collected, [(method, found[case]) for method, found in by_method.items()])
        for case in _telling(by_method)
    )
    title = collected.benchmarks[development].title
    return (
        f"<p>The first {CASES} cases of {escape(title)} on which the methods disagree, run {RUN} "
        "of each. White: the doctor; blue: the patient.</p>" + blocks
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


def candidate_group(collected: Collected) -> str:
    """The last collected candidate group whose candidates differ most; nothing where none is."""
    folder = collected.folder / "collected" / "candidate_groups"
    files = sorted(folder.glob("*/*.jsonl"))
    if not files:
        return ""
    preferred = [path for path in files if path.parent.name == "pcqc"]
    path = (preferred or files)[0]
    group = max((row for _, row in read_jsonl(path)), key=lambda row: row["spread"] or 0)
    return _group(collected, path, group)


def _group(collected: Collected, path: Path, group: dict) -> str:
    options = "; ".join(f"{label}. {text}" for label, text in group["options"].items())
    history = " ".join(f"{turn['question']} {turn['answer']}" for turn in group["history"])
    rows = [
        [
            candidate["question"] or "(no question)",
            candidate["answer"] or MISSING,
            _number(candidate["utility"], 3, signed=False),
            _number(candidate["gain"], 3),
            _number(candidate["credit"], 2),
            "yes" if candidate["executed"] else "no",
        ]
        for candidate in group["candidates"]
    ]
    caption = (
        f"{collected.title(path.parent.name)} run {path.stem}, update {group['update']}: "
        f"{group['initial']} {history} {options}. Right answer: {group['answer_label']}. Before "
        f"the question the scorer gave it {_number(group['baseline'], 3, signed=False)}; the "
        "executed question went on."
    )
    head = ["Question", "Patient's answer", "Utility u", "Gain Δ", "Credit A", "Executed"]
    title = "A candidate group, answered and credited."
    return simple_table("candidates", title, caption, head, rows)


def _number(value: float | None, digits: int, signed: bool = True) -> str:
    """A number as printed; a dash where the scorer gave none."""
    return MISSING if value is None else Number(value, digits=digits, signed=signed).text()
