"""The audit: what counts as which overlap, and what its files say."""

import csv
from pathlib import Path

import pytest
from helpers import make_case

from data_prep.convert import convert_file
from data_prep.overlap import KINDS, Prompt, find_overlap, read_prompts
from data_prep.parts import plain
from pcqc.cases.case import write_cases
from pcqc_base.system.files import read_json, sha256_file
from pcqc_study.cli import main

ROOT = Path(__file__).parents[3]
INITIAL = "A 61-year-old retired teacher presents with two weeks of painless jaundice and itching"
QUESTION = "Which of the following investigations is the most appropriate next step in management?"
OPTIONS = {"A": "Ultrasound of the abdomen", "B": "Liver biopsy", "C": "Blood culture", "D": "ERCP"}


def case(number, **changes):
    return make_case(
        number, **{"initial": INITIAL, "question": QUESTION, "options": OPTIONS, **changes}
    )


def prompts(folder, name, *cases):
    write_cases(folder / f"{name}.jsonl", cases)
    return read_prompts(name, folder / f"{name}.jsonl")


SPACED = {label: f" {text}" for label, text in OPTIONS.items()}
ALL_KINDS = set(KINDS)
OTHER = {"A": "Aspirin", "B": "Paracetamol and rest", "C": "No treatment", "D": "Intubation"}


@pytest.mark.parametrize(
    ("changes", "kinds"),
    [
        ({}, ALL_KINDS),
        ({"initial": f" {INITIAL.upper()}\n", "options": SPACED}, ALL_KINDS),
        ({"options": OTHER}, {"case_and_problem"}),
        ({"initial": INITIAL + "."}, {"char_5gram", "word_1_2gram"}),
        ({"options": {**OPTIONS, "D": "MRCP"}}, ALL_KINDS - {"full_prompt"}),
        ({"initial": "A boy has an itchy rash", "options": OTHER}, None),
    ],
    ids=["same", "case and spaces", "other options", "a full stop", "one option", "other case"],
)
def test_kinds_of_overlap(tmp_path, changes, kinds):
    evaluation = prompts(tmp_path, "evaluation", case(1))
    training = prompts(tmp_path, "training", case(2, **changes))
    pairs = find_overlap(evaluation, training)
    assert [pair.kinds for pair in pairs] == ([] if kinds is None else [kinds])


def test_normalising():
    assert plain(" Ｆever\u00a0 of\n38 ℃ ") == "fever of 38 °c"


def test_sft_rows_give_each_consultation_once(fixtures, tmp_path):
    convert_file(fixtures / "atpo_sft.jsonl", tmp_path / "sft.jsonl")
    convert_file(fixtures / "atpo_dialogues.jsonl", tmp_path / "cases.jsonl", source="medqa")
    first, loose = read_prompts("sft", tmp_path / "sft.jsonl")
    baker = read_prompts("medqa", tmp_path / "cases.jsonl")[0]
    assert first.id == "atpo_sft-1"
    assert (first.full, first.problem) == (baker.full, baker.problem)
    assert loose == Prompt(
        "sft",
        "atpo_sft-3",
        "a girl limps. which test is first? a) x-ray b) mri",
        "a girl limps. which test is first? a) x-ray b) mri",
    )


def test_the_command_counts_evaluation_cases_and_lists_pairs(tmp_path, capsys):
    apart = case(5, initial="Her knees hurt", question="Which test is next?", options=OTHER)
    write_cases(tmp_path / "one.jsonl", [case(1), case(2), apart])
    write_cases(tmp_path / "two.jsonl", [case(3, options=OTHER)])
    write_cases(tmp_path / "held.jsonl", [case(9), make_case(10)])
    to = tmp_path / "audit"
    files = [str(tmp_path / f"{name}.jsonl") for name in ("one", "two")]
    command = ["data", "overlap", "--training", *files]
    command += ["--evaluation", f"icraft_md={tmp_path / 'held.jsonl'}", "--to", str(to)]
    assert main(command) == 0
    assert "icraft_md against all training data: evaluation_cases 2" in capsys.readouterr().out
    with open(to / "counts.csv", newline="") as file:
        counts = [[*row.values()][3:] for row in csv.DictReader(file)]
    assert counts == [list("311111"), list("101000"), list("411111")]
    with open(to / "pairs.csv", newline="") as file:
        pairs = list(csv.DictReader(file))
    assert [(p["evaluation_id"], p["training"], p["training_id"]) for p in pairs] == [
        ("case-9", "one", "case-1"),
        ("case-9", "one", "case-2"),
        ("case-9", "two", "case-3"),
    ]
    kinds = [[pair[kind] for kind in KINDS] for pair in pairs[::2]]
    assert kinds == [["yes", "yes", "1.0000", "1.0000"], ["", "yes", "", ""]]
    assert pairs[0]["evaluation_prompt"].startswith("a 61-year-old retired teacher")
    inputs = read_json(to / "inputs.json")
    assert inputs["thresholds"] == {"char_5gram": 0.85, "word_1_2gram": 0.9}
    assert inputs["sets"]["one"] == {
        "file": "one.jsonl",
        "prompts": 3,
        "sha256": sha256_file(tmp_path / "one.jsonl"),
    }


def test_two_sets_of_one_name_are_refused(tmp_path, capsys):
    write_cases(tmp_path / "a.jsonl", [case(1)])
    path = str(tmp_path / "a.jsonl")
    command = ["data", "overlap", "--training", path, "--evaluation", path, "--to", str(tmp_path)]
    assert main(command) == 2
    assert "two sets are named 'a'; name one of them NAME=FILE" in capsys.readouterr().err


def test_the_published_development_cases_share_one_case_with_the_test_split(published, tmp_path):
    names = {"medqa": "atpo/medqa_test_dataset.jsonl", "dev": "mediq/medqa_dev_convo.jsonl"}
    sets = {}
    for name, file in names.items():
        convert_file(published(file), tmp_path / f"{name}.jsonl")
        sets[name] = read_prompts(name, tmp_path / f"{name}.jsonl")
    overlapping = {
        (pair.evaluation.id, pair.training.id): pair.kinds
        for pair in find_overlap(sets["medqa"], sets["dev"])
    }
    assert overlapping == {
        ("medqa-292", "mediq_dev-617"): {"case_and_problem", "char_5gram", "word_1_2gram"},
        ("medqa-455", "mediq_dev-125"): {"char_5gram"},
    }
