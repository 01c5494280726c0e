"""A study in code whose consultations can be read: two methods, one disease likelier by its spots.

The world is small enough to work every exact value out by hand: with equal base rates nine of
ten patients with amber have amber spots, and one of ten with azure; coral spots say nothing.
"""

from dataclasses import replace

from hand_made import (
    asked,
    candidate_group,
    clinic_file,
    concluded,
    dialogue,
    finish_clinic,
    finish_job,
    folder_of,
)

from clinic_env.world import World
from pcqc.cases.case import Case, write_cases
from pcqc_base.system.files import write_jsonl
from pcqc_clinic.world import save_world
from pcqc_study.study_file import Study, load_study

WORLD = World(
    ("amber", "azure"),
    ("amber", "coral"),
    ((0.9, 0.5), (0.1, 0.5)),
    ("fatigue",),
    ((1.0,), (1.0,)),
    (0.5, 0.5),
)
METHODS = ("pcqc", "atpo")
HOSTILE = "<img src=x onerror=\"document.title='taken'\"></script><script>document.title='taken'"


def case(number: int, place: str) -> Case:
    return Case(
        f"{place}-{number:05d}",
        "clinic",
        "fatigue present.",
        "Which diagnosis is most likely?",
        {"A": "amber", "B": "azure"},
        ("amber spots present.", "coral spots absent."),
        "A",
    )


AMBER = asked("Any amber spots?", "amber spots present.")
CORAL = asked("Any coral spots?", "coral spots absent.")
FINAL = concluded("A")


def write_study(cases: int = 3) -> Study:
    """Write two evaluated and trained runs below the working directory; their study."""
    study = load_study("clinic")
    methods = {
        name: replace(method, runs=("A",) if name in METHODS else ())
        for name, method in study.methods.items()
    }
    study = replace(study, methods=methods, continuation=None)
    save_world(WORLD, clinic_file(study, "world"))
    for name in ("train", *study.benchmarks):
        write_cases(clinic_file(study, name), [case(n, name) for n in range(cases)])
    finish_clinic(study)
    runs = {method: folder_of(study, "train", method, "A") for method in METHODS}
    for method, folder in runs.items():
        _evaluate(study, method, cases)
        sampled = dialogue(
            case(0, "train"), [AMBER, FINAL], "A", update=1, reward=1.0, advantage=0.5
        )
        write_jsonl(folder / "consultations.jsonl", [sampled])
    write_jsonl(runs["pcqc"] / "candidate_groups.jsonl", [GROUP, OTHER_GROUP])
    write_jsonl(runs["atpo"] / "trees.jsonl", [TREE])
    for method in METHODS:
        finish_job(study, "train", method, "A")
    return study


def _evaluate(study: Study, method: str, cases: int) -> None:
    folder, benchmarks = folder_of(study, "evaluate", method, "A"), {}
    for name in study.benchmarks:
        rows = []
        for number in range(cases):
            predicted = "B" if method == "atpo" and number % 3 == 0 else "A"
            final = concluded("A", HOSTILE if number == 1 else None)
            turns = [*[AMBER, CORAL][: 1 + number % 2], final]
            rows.append(dialogue(case(number, name), turns, predicted))
        benchmarks[name] = {"dialogues": f"{name}.jsonl"}
        write_jsonl(folder / f"{name}.jsonl", rows)
    finish_job(study, "evaluate", method, "A", entries={"update": 7, "benchmarks": benchmarks})


def _group(case_id: str, utilities: tuple[float, float]) -> dict:
    state = {"update": 1, "case_id": case_id, "turn": 0}
    return candidate_group([AMBER, CORAL], utilities, baseline=0.5, **state)


# Executed gains of the update are 0.4 and 0.2.
GROUP, OTHER_GROUP = _group("train-00000", (0.9, 0.5)), _group("train-00001", (0.7, 0.9))


def _node(parent: int | None, turn: dict | None, advantage: float, **more) -> dict:
    keys = ("response", "question", "answer")
    texts = {key: turn[key] for key in keys} if turn else dict.fromkeys(keys)
    numbers = {"value": 0.25, "backed_up": 0.75, "visits": 2, "advantage": advantage}
    return {"parent": parent, "pruned": False, **texts, **numbers, **more}


TREE = {
    "update": 1,
    "case_id": "train-00000",
    "nodes": [
        _node(None, None, 0.0),
        _node(0, CORAL, -0.5, pruned=True),
        _node(0, AMBER, 0.5),
        _node(2, FINAL, 1.5),
    ],
}
