"""A study in code whose consultations can be read: two methods, one sickness more likely by a rash.

The world is small enough to work every exact value out by hand: with equal base rates a rash is
present in nine of ten patients with amberitis and in one of ten with bluepox, and a cough says
nothing.
"""

from dataclasses import replace

from pcqc.cases import Case, write_cases
from pcqc.clinic.world import World
from pcqc.config import Study, load_study
from pcqc.files import write_json, write_jsonl
from pcqc.job_outputs import job_output
from pcqc.paths import Paths

WORLD = World(
    ("amberitis", "bluepox"),
    ("fever", "rash", "cough"),
    ((0.5, 0.9, 0.5), (0.5, 0.1, 0.5)),
    (0.5, 0.5),
)
METHODS = ("pcqc", "atpo")
HOSTILE = "<img src=x onerror=\"document.title='taken'\"></script><script>document.title='taken'"


def case(number: int, place: str) -> Case:
    return Case(
        f"{place}-{number:05d}",
        "clinic",
        "fever present.",
        "Which diagnosis is most likely?",
        {"A": "amberitis", "B": "bluepox"},
        ("rash present.", "cough absent."),
        "A",
    )


def turn(question: str | None, answer: str | None, said: str | None = None) -> dict:
    """A question, or the final answer A."""
    action = "question" if question else "final"
    response = said or (f"Question: {question}" if question else "Final Answer: A")
    return {"response": response, "action": action, "question": question, "answer": answer}


def dialogue(one: Case, *turns: dict, predicted: str = "A", **more) -> dict:
    outcome = {"predicted": predicted, "answer": "A", "correct": predicted == "A"}
    public = {"initial": one.initial, "question": one.question, "options": one.options}
    return {
        **{"case_id": one.case_id, **public, "turns": list(turns), **outcome},
        **{"ending": "answer", "actor_tokens": 5 * len(turns), **more},
    }


RASH, COUGH = turn("Any rash?", "rash present."), turn("Any cough?", "cough absent.")
FINAL = turn(None, None)


def write_study(cases: int = 3) -> Study:
    """Write two evaluated and trained runs below the working directory; their study."""
    study = load_study("clinic")
    methods = {
        name: replace(method, runs=("A",) if name in METHODS else ())
        for name, method in study.methods.items()
    }
    study = replace(study, methods=methods, continuation=None)
    paths = Paths.of(study)
    WORLD.save(paths.world)
    for path in (paths.train_cases, *map(paths.cases, study.benchmarks)):
        write_cases(path, [case(n, path.stem) for n in range(cases)])
    for method in METHODS:
        _evaluate(study, method, cases)
        folder = paths.run(method, "A")
        sampled = dialogue(case(0, "train"), RASH, FINAL, update=1, reward=1.0, advantage=0.5)
        write_jsonl(folder / "consultations.jsonl", [sampled])
    write_jsonl(paths.run("pcqc", "A") / "candidate_groups.jsonl", [GROUP, OTHER_GROUP])
    write_jsonl(paths.run("atpo", "A") / "trees.jsonl", [TREE])
    for method in METHODS:
        folder = paths.run(method, "A")
        write_json(folder / "manifest.json", {})
        job_output(study, "train", method, "A").finish(sorted(p.name for p in folder.iterdir()))
    return study


def _evaluate(study: Study, method: str, cases: int) -> None:
    folder, found = Paths.of(study).evaluation(method, "A"), {}
    for name in study.benchmarks:
        rows = []
        for number in range(cases):
            asked = [RASH, COUGH][: 1 + number % 2]
            wrong = method == "atpo" and number % 3 == 0
            final = turn(None, None, HOSTILE if number == 1 else None)
            predicted = "B" if wrong else "A"
            rows.append(dialogue(case(number, name), *asked, final, predicted=predicted))
        found[name] = {"dialogues": f"{name}.jsonl"}
        write_jsonl(folder / f"{name}.jsonl", rows)
    write_json(folder / "manifest.json", {"update": 7, "benchmarks": found})
    job_output(study, "evaluate", method, "A").finish(sorted(p.name for p in folder.iterdir()))


def _candidate(one: dict, utility: float, credit: float, executed: bool) -> dict:
    texts = {key: one[key] for key in ("response", "question", "answer")}
    numbers = {"utility": utility, "gain": utility - 0.5, "credit": credit}
    return {**texts, **numbers, "executed": executed, "supervised": True}


def _group(case_id: str, utilities: tuple[float, float]) -> dict:
    signs = (1, -1) if utilities[0] > utilities[1] else (-1, 1)
    return {
        **{"update": 1, "case_id": case_id, "turn": 0, "baseline": 0.5, "history": []},
        "spread": abs(utilities[0] - utilities[1]) / 2**0.5,
        "candidates": [
            _candidate(RASH, utilities[0], signs[0] * 0.7071, True),
            _candidate(COUGH, utilities[1], signs[1] * 0.7071, False),
        ],
    }


# Executed gains of the update are 0.4 and 0.2.
GROUP, OTHER_GROUP = _group("train-00000", (0.9, 0.5)), _group("train-00001", (0.7, 0.9))


def _node(parent: int | None, one: dict | None, advantage: float, **more) -> dict:
    keys = ("response", "question", "answer")
    said = {key: one[key] for key in keys} if one else dict.fromkeys(keys)
    numbers = {"value": 0.25, "backed_up": 0.75, "visits": 2, "advantage": advantage}
    return {"parent": parent, "pruned": False, **said, **numbers, **more}


TREE = {
    "update": 1,
    "case_id": "train-00000",
    "nodes": [
        _node(None, None, 0.0),
        _node(0, COUGH, -0.5, pruned=True),
        _node(0, RASH, 0.5),
        _node(2, FINAL, 1.5),
    ],
}
