"""A study of real cases from end to end: published formats, pretrained weights, every rule.

The cases are made up and the model is tiny, so that what runs is the path alone.
"""

import json

import pytest
import yaml
from helpers import make_tokenizer, tiny_model
from workplace import Workplace

from pcqc.study import load_study
from pcqc.system.files import read_json, read_jsonl

NAME = "tiny-real"
OPTIONS = {"A": "flu", "B": "cold", "C": "croup", "D": "asthma"}
STUDY = {
    "title": "Tiny study of real cases",
    "synthetic": False,
    "path_test": True,
    "data": {"training": [{"file": "train.jsonl"}], "sft_cases": 6, "sft_questions": [1]},
    "benchmarks": {
        "dev": {"title": "Dev", "role": "development", "raw": {"file": "dev.jsonl"}},
        "other": {
            "title": "Other",
            "role": "held_out",
            "optional": True,
            "raw": {"file": "other.jsonl"},
        },
        "gone": {
            "title": "Gone",
            "role": "independent_source",
            "optional": True,
            "raw": {"file": "gone.jsonl"},
        },
    },
    "models": {"actor": {"source": "published"}},
    "protocol": {
        "max_turns": 2,
        "prompt_tokens": 400,
        "response_tokens": 1200,
        "action_tokens": 8,
    },
    "actor_decoding": {"temperature": 1.0, "top_p": 0.8, "max_tokens": 8},
    "patient_decoding": {"temperature": 0.8, "top_p": 1.0, "max_tokens": 8},
    "sft": {"epochs": 1, "patient_epochs": 1, "batch_size": 6, "learning_rate": 0.001},
    "rl": {
        "cases_per_update": 2,
        "learning_rate": 0.001,
        "checkpoint_every": 1,
        "tokens_per_micro_batch": 4096,
    },
    "runs": {"A": 1},
    "evaluation_seed": 0,
}


def case_row(number: int) -> dict:
    """A case in MEDIQ's format."""
    facts = ["There is no cough.", f"His pulse is {60 + number}/min."]
    return {
        "id": number,
        "question": "Which diagnosis?",
        "context": [f"Patient {number} has fever.", *facts],
        "options": OPTIONS,
        "answer": "cold",
        "answer_idx": "B",
        "facts": [f"{i}. {fact}" for i, fact in enumerate(facts, start=1)],
    }


def dialogue_row(number: int) -> dict:
    """A case in the format of ATPO's dialogues."""
    told = f"Child {number} is hot.\nProblem: Which diagnosis?\nOptions: {OPTIONS}"
    return {
        "prompt": [
            {"role": "system", "content": "Ask."},
            {"role": "user", "content": told},
        ],
        "ground_truth": {"answer": "B", "answer_info": "cold"},
        "agent_name": "x",
        "extra_info": {"atomic_facts": ["1. No cough."]},
        "data_source": "aie",
        "index": number,
    }


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """The finished study, made from its raw files and a published model folder."""
    folder = tmp_path_factory.mktemp("real") / "place"
    place = Workplace(folder)
    place.results = folder / "results" / NAME
    model = folder / "published"
    tiny_model().save_pretrained(model, safe_serialization=True)
    make_tokenizer().save_pretrained(model)
    rows = {
        "train.jsonl": [case_row(i) for i in range(12)],
        "dev.jsonl": [dialogue_row(i) for i in range(3)],
        "other.jsonl": [dialogue_row(i) for i in range(10, 13)],
    }
    (folder / "data" / "raw").mkdir(parents=True)
    for name, lines in rows.items():
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / "data" / "raw" / name).write_text(text)
    chosen = {"shared_sft": {"runs": ["A"]}, "pcqc": {"updates": 1, "runs": ["A"]}}
    unused = {name: {"runs": []} for name in load_study("clinic").methods if name not in chosen}
    study = {**STUDY, "methods": {**unused, **chosen}}
    (folder / "config" / "studies" / f"{NAME}.yaml").write_text(yaml.safe_dump(study))
    done = place.run(place.workflow(study=NAME))
    assert done.returncode == 0, done.stderr[-3000:]
    return place


def test_everything_is_made(place):
    results = place.results
    assert (results / "report.html").is_file()
    assert len(list(read_jsonl(results / "data/train/latest/train.jsonl"))) == 6
    # MEDIQ's training rows carry no system message: it is that of the development benchmark.
    assert (results / "data/instruction/latest/instruction.txt").read_text() == "Ask."
    for name in ("train", "dev", "other"):
        assert read_json(results / f"data/converted/{name}/latest/{name}.card.json")["cases"]
    evaluation = results / "evaluation/pcqc/A/latest"
    assert set(read_json(evaluation / "manifest.json")["benchmarks"]) == {"dev", "other"}
    rows = [row for _, row in read_jsonl(evaluation / "dev.jsonl")]
    assert [row["initial"] for row in rows] == [f"Child {i} is hot." for i in range(3)]


def test_tables_and_report_say_what_they_are(place):
    table = (place.results / "tables" / "main_accuracy.md").read_text()
    report = (place.results / "report.html").read_text()
    for text in (table, report):
        assert "This is a test of the path." in text
        assert "Benchmarks left out, as their files were missing: gone (gone.jsonl)." in text
    assert "Consultations to read" in report
    assert "Child 0 is hot." in report


def test_a_missing_file_stops_the_study_in_one_line(place):
    command = [*place.workflow("--dry-run", study=NAME), "data=elsewhere"]
    done = place.run(command)
    assert done.returncode != 0
    (line,) = [x for x in done.stderr.splitlines() if x.startswith("pcqc: error: ")]
    assert "elsewhere/dev.jsonl, elsewhere/other.jsonl, elsewhere/train.jsonl: missing" in line
    assert "pcqc data fetch" in line
    assert "--config data=FOLDER" in line
