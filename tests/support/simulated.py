"""A study made in code, evaluated and collected: doctors of known skill see real clinic cases.

Each method has a share of good questions, a mean number of questions and a share of Bayes-optimal
diagnoses, so that every table and figure has something to show, and the Bayes doctor's split of a
gain can be checked against the skills that made it.
"""

import contextlib
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from hand_made import (
    asked,
    clinic_file,
    concluded,
    dialogue,
    evaluated,
    evaluation,
    finish_clinic,
    finish_job,
    folder_of,
)

from clinic_env.posterior import Values, posterior
from clinic_env.world import World, ask, draw_patient, read_findings
from pcqc.cases.case import Case, write_cases
from pcqc.logged.updates import EVENTS, TIMES, apart
from pcqc_base.settings import Method
from pcqc_base.system.files import write_json, write_jsonl
from pcqc_clinic.world import as_case, make_world, save_world
from pcqc_study.graph import Jobs
from pcqc_study.study_file import Study, load_study

STUDY = Path(__file__).with_suffix(".yaml")
STATES, UNGROUNDED_STATES, CANDIDATES, CONTINUATIONS = 40, 20, 4, 8
SIZES = {"development": 80, "held_out": 30, "independent_source": 24}


@dataclass(frozen=True)
class Skill:
    """What a simulated doctor does: shares of good questions and diagnoses, questions asked."""

    question: float
    diagnosis: float
    questions: int


SKILLS = {
    "shared_sft": Skill(0.1, 0.7, 1),
    "grpo": Skill(0.3, 0.95, 3),
    "atpo": Skill(0.5, 0.95, 1),
    "pcqc": Skill(0.95, 0.95, 2),
    "terminal_only": Skill(0.3, 0.85, 2),
    "executed_local": Skill(0.6, 0.9, 2),
    "same_state_q1": Skill(0.7, 0.9, 2),
}


def write_study(root: Path) -> Study:
    """Write `results/simulated/` below `root` and return the study; run with `root` as folder."""
    study = load_study(STUDY)
    jobs = Jobs(study)
    collected = root / jobs.job("collect").path
    world = make_world(replace(study.clinic, diseases=8))
    save_world(world, root / clinic_file(study, "world"))
    rows, records = [], []
    cases = {name: _cases(world, study, name) for name in study.benchmarks}
    for name, drawn in cases.items():
        write_cases(root / clinic_file(study, name), drawn)
    for method, settings in _compared(study).items():
        for run in settings.runs:
            rng = np.random.default_rng([list(study.methods).index(method), ord(run)])
            for benchmark, drawn in cases.items():
                dialogues = [_consult(world, case, _skill(method), rng) for case in drawn]
                path = root / jobs.job("evaluate", method, run).path / f"{benchmark}.jsonl"
                write_jsonl(path, dialogues)
                labels = {"method": method, "run": run, "update": settings.updates}
                rows += evaluation(dialogues, benchmark=benchmark, **labels).predictions
            records.append(_record(jobs, method, run))
    for record in records:
        if (record["method"], record["run"]) in study.continued:
            place = collected / "continuation" / record["method"] / record["run"]
            record["continuation"] = _continue(place, world, cases[study.development], record)
    pd.DataFrame(rows).to_parquet(collected / "predictions.parquet")
    updates = _updates(study, world)
    updates.to_parquet(collected / "updates.parquet")
    _validations(study, rows).to_parquet(collected / "validations.parquet")
    write_json(collected / "runs.json", records)
    with contextlib.chdir(root):
        finish_clinic(study)
        for kind in ("base", "sft"):
            finish_job(study, kind)
        for record in records:
            _finish_run(study, record, rows, updates, collected)
        finish_job(study, "collect")
    return study


def _finish_run(
    study: Study, record: dict, rows: list[dict], updates: pd.DataFrame, collected: Path
) -> None:
    """Write the results of a run's jobs as they were collected."""
    pair = record["method"], record["run"]
    if record["training"]:
        own = updates[(updates["method"] == pair[0]) & (updates["run"] == pair[1])]
        events = json.loads(own.drop(columns=["method", "run"]).to_json(orient="records"))
        for number, name in enumerate((EVENTS, TIMES)):
            split = [apart({n: x for n, x in row.items() if x is not None}) for row in events]
            write_jsonl(
                folder_of(study, "train", *pair) / f"{name}.jsonl", [s[number] for s in split]
            )
        finish_job(study, "train", *pair, entries=record["training"])
    write_json(folder_of(study, "select", *pair) / "selection.json", record["selection"])
    finish_job(study, "select", *pair)
    of_run = [row for row in rows if (row["method"], row["run"]) == pair]
    evaluated(study, *pair, of_run, update=record["evaluation"]["update"])
    if record.get("continuation"):
        place, manifest = collected.joinpath("continuation", *pair), record["continuation"]
        for kind, names in {"continuation": "*.parquet", "grounding": "*.csv"}.items():
            folder = folder_of(study, kind, *pair)
            folder.mkdir(parents=True)
            for path in place.glob(names):
                shutil.copy(path, folder)
            finish_job(study, kind, *pair, entries=manifest if kind == "continuation" else None)


def _compared(study: Study) -> dict[str, Method]:
    """What tables show: ablations are run on demand, and collected only then."""
    return {name: m for name, m in study.methods.items() if not m.on_demand}


def _skill(method: str) -> Skill:
    return SKILLS.get(method, SKILLS["grpo"])


def _cases(world: World, study: Study, name: str) -> list[Case]:
    benchmark = study.benchmarks[name]
    rng = np.random.default_rng(list(study.benchmarks).index(name))
    rates = world.rates(benchmark.base_rates)
    drawn = []
    for row in range(SIZES[benchmark.role]):
        options = int(rng.choice([n for n in benchmark.options if n <= len(world.diseases)]))
        patient = draw_patient(world, rng, options, rates)
        drawn.append(as_case(world, patient, f"{name}-{row}", benchmark, rng))
    return drawn


def best_first_questions(world: World, case: Case) -> list[int]:
    """Findings after which a diagnosis is right most often, if one question is allowed."""
    values = Values(world)(case, {}, [], 1)
    return [f for f, value in values.items() if value > max(values.values()) - 1e-10]


def _consult(world: World, case: Case, skill: Skill, rng: np.random.Generator) -> dict:
    """One dialogue: questions by skill, answers from the facts, a diagnosis by skill."""
    turns, answered = [], {}
    best = best_first_questions(world, case)
    for number in range(int(rng.integers(max(0, skill.questions - 1), skill.questions + 2))):
        good = number == 0 and rng.random() < skill.question
        finding = best[0] if good else int(rng.integers(len(world.findings)))
        name = world.findings[finding]
        answer = next((f for f in case.facts if name in f), "The patient cannot answer this.")
        if name in answer:
            answered |= read_findings(world, answer)
        turns.append(asked(ask(name), answer))
    probability = posterior(world, case, answered)
    labels = list(case.options)
    wrong = rng.random() > skill.diagnosis
    predicted = str(rng.choice(labels)) if wrong else labels[int(probability.argmax())]
    return dialogue(case, [*turns, concluded(predicted)], predicted)


def _continue(folder: Path, world: World, cases: list[Case], record: dict) -> dict:
    """Sets of states: of the claim, of an early checkpoint, and with answers that lack grounds."""
    rng = np.random.default_rng(ord(record["method"][0]))
    sets = {"main": cases[:STATES]}
    if record["method"] == "pcqc":
        further = cases[STATES : STATES + UNGROUNDED_STATES]
        sets |= {"early": cases[:STATES], "ungrounded": further}
    tables = {
        name: [rows for case in chosen for rows in _candidates(world, case, name, rng)]
        for name, chosen in sets.items()
    }
    every = [rows for of_set in tables.values() for rows in of_set]
    judged = [grounding for candidate, _, grounding in every if candidate["set"] != "early"]
    folder.mkdir(parents=True)
    pd.DataFrame([row for row, *_ in every]).to_parquet(folder / "candidates.parquet")
    continuations = pd.DataFrame([row for _, rows, _ in every for row in rows])
    continuations.to_parquet(folder / "continuations.parquet")
    pd.DataFrame(judged).to_csv(folder / "grounding.csv", index=False)
    drawn = {
        name: {
            "update": 20 if name == "early" else record["evaluation"]["update"],
            "states": len(sets[name]),
            "replaced": 5,
            "trajectories": len(rows) * CONTINUATIONS,
        }
        for name, rows in tables.items()
    }
    sizes = {"candidates": CANDIDATES, "continuations": CONTINUATIONS}
    return {"benchmark": "clinic_dev", **sizes, **drawn.pop("main"), "further_sets": drawn}


def _candidates(
    world: World, case: Case, name: str, rng: np.random.Generator
) -> Iterator[tuple[dict, list[dict], dict]]:
    """Candidates whose utility is that of their finding, and that succeed the likelier for it."""
    best = best_first_questions(world, case)
    for k in range(CANDIDATES):
        finding = int(rng.integers(len(world.findings)))
        symptom = world.findings[finding]
        utility = float(rng.uniform(0.2, 0.5) + 0.4 * (finding in best))
        key = {"case_id": case.case_id, "candidate": k}
        of = {"set": name, **key}
        texts = {"question": ask(symptom), "answer": f"{symptom} present."}
        numbers = {"utility": utility, "baseline": 0.25, "credit": 2 * utility - 1}
        numbers |= {"executed": k == 0}
        outcomes = [
            {"correct": bool(rng.random() < utility), "turns": 1, "ending": "answer"}
            for _ in range(CONTINUATIONS)
        ]
        misled = name == "ungrounded" and rng.random() < 0.2
        eligible = "no" if misled or rng.random() < 0.1 else "yes"
        yield (
            {**of, **texts, **numbers, "ungrounded": misled},
            [{**of, "continuation": n, **outcome} for n, outcome in enumerate(outcomes)],
            {**key, "eligible": eligible, "judge": "rules"},
        )


def _record(jobs: Jobs, method: str, run: str) -> dict:
    study = jobs.study
    settings = study.methods[method]
    updates = settings.updates
    selected = {"update": updates, "accuracy": 0.8, "turns": 2.0}
    rejected = [
        {"update": u, "accuracy": 0.7, "turns": 2.5, "reason": "lower accuracy than the selected"}
        for u in range(study.rl.checkpoint_every, updates, study.rl.checkpoint_every)
    ]
    common = {"study": study.name, "method": method, "run": run, "seed": study.runs[run]}
    training = common | {"updates": updates, "totals": {"device_seconds": 36.0 * updates}}
    return {
        "method": method,
        "run": run,
        "fingerprint": jobs.job("evaluate", method, run).path.name,
        "training": None if settings.kind == "sft" else training,
        "evaluation": common | {"update": updates, "benchmarks": {}},
        "selection": {
            "benchmark": study.development,
            "criterion": "highest development accuracy",
            "selected": selected,
            "rejected": rejected,
        },
    }


def _updates(study: Study, world: World) -> pd.DataFrame:
    """Learning curves that rise to the method's skill."""
    rows = []
    for method, settings in _compared(study).items():
        for run in settings.runs if settings.kind == "rl" else ():
            rng = np.random.default_rng([7, list(study.methods).index(method), ord(run)])
            skill = _skill(method)
            consultations = getattr(settings, "terminal_group", 4)  # of a case; ATPO searches trees
            for update in range(1, settings.updates + 1):
                share = update / settings.updates
                level = 0.6 + 0.3 * skill.question * share + rng.normal(0, 0.01)
                common = {"method": method, "run": run, "update": update}
                metrics = {
                    "kind": "update",
                    "accuracy": level,
                    "turns": 1.5 + (skill.questions - 1.5) * share,
                    "device_hours": update * 2e-4 * consultations,
                    "trajectories": update * study.rl.cases_per_update * consultations,
                }
                metrics["sampled_tokens"] = 90 * metrics["trajectories"]
                drawn = study.rl.cases_per_update * consultations  # consultations of this update
                tokens = {"read/actor": 300, "sampled/actor": 80, "read/patient": 90}
                tokens |= {"sampled/patient": 10, "tokens/trained": 80}
                metrics |= {name: each * drawn for name, each in tokens.items()}
                if hasattr(settings, "question_group"):
                    credit = {"utility_spread": 0.1 + level / 9, "zero_group_share": 1 - level}
                    credit["small_spread_share"] = share / 2
                    metrics |= {f"credit/{name}": value for name, value in credit.items()}
                rows.append(common | metrics)
                if update % study.rl.checkpoint_every == 0:
                    validated = {"kind": "validation", "best_questions": skill.question * share}
                    rows.append(common | metrics | validated)
    return pd.DataFrame(rows)


def _validations(study: Study, rows: list[dict]) -> pd.DataFrame:
    """Every checkpoint on the development cases: the sooner, the fewer of them are right yet."""
    rng, validated = np.random.default_rng(11), []
    for row in rows:
        settings, every = study.methods[row["method"]], study.rl.checkpoint_every
        if row["benchmark"] != study.development or settings.kind == "sft":
            continue
        for update in range(every, settings.updates + 1, every):
            learned = rng.random() < update / settings.updates
            validated.append({**row, "update": update, "correct": row["correct"] and learned})
    return pd.DataFrame(validated)
