"""The actor's system message: the study's own, or the one that its published cases carry."""

import json

import pytest
from helpers import INSTRUCTION, changed
from real_data import convert, lay_down, prepare

from pcqc.cases.case import read_cases
from pcqc.jobs.instruction import chat_format, instruction
from pcqc_base.errors import UserError
from pcqc_base.settings import RawFile
from pcqc_base.system.files import read_json, read_jsonl
from pcqc_base.system.manifest import read_manifest
from pcqc_study.graph import Jobs, latest
from pcqc_study.run_job import latest_task, run_job

SAID = "Ask, or choose an option.\r\nOne question at a time.\n"


@pytest.fixture
def open_study(study):
    """A study that leaves the system message to its published cases."""
    return changed(changed(study, "protocol.instruction", None), "protocol.prompt_tokens", 200)


def message(study) -> str:
    """What the actor is told in consultations."""
    return instruction(latest_task(study, "sft"))


def test_the_training_cases_message_is_the_actors_in_sft_rl_and_evaluation(open_study, publish):
    publish("train", SAID)
    publish("dev", "Other words.")
    notes = prepare(open_study)
    assert message(open_study) == SAID
    task = latest_task(open_study, "sft")
    assert chat_format(task, latest(open_study, "base") / "base").instruction == SAID
    written = [
        row["messages"][0]["content"] for _, row in read_jsonl(Jobs(open_study).cases("sft").latest)
    ]
    assert set(written) == {SAID}
    assert read_manifest(latest(open_study, "instruction"))["from"] == "train"
    assert notes == [
        f"the actor's system message is that of train, {len(SAID)} characters",
        "dev was published with another system message than the actor's",
    ]


def test_where_training_carries_none_the_development_benchmark_says_it(open_study, publish):
    publish("dev", SAID)
    publish("few", "Words of a benchmark that is not for development.")
    prepare(open_study)
    assert message(open_study) == SAID
    assert read_manifest(latest(open_study, "instruction"))["from"] == "dev"


def test_a_study_s_own_message_stands_and_the_published_one_is_named(study, publish):
    publish("train", SAID)
    publish("dev", INSTRUCTION)
    assert prepare(study) == ["train was published with another system message than the actor's"]
    assert message(study) == INSTRUCTION
    assert not (latest(study, "instruction") / "instruction.txt").exists()


@pytest.mark.parametrize(
    ("published", "words"),
    [
        ({}, "neither the training cases nor those of 'dev' have a system message; give the"),
        ({"train": ("A", "B", "C")}, "train.card.json: the rows have 3 different system messages"),
        ({"dev": ("A", "B")}, "dev.card.json: the rows have 2 different system messages"),
    ],
)
def test_no_one_message_is_an_error_in_one_line(open_study, publish, published, words):
    for name, systems in published.items():
        publish(name, *systems)
    with pytest.raises(UserError, match=words) as error:
        prepare(open_study)
    assert "give the study protocol.instruction" in str(error.value)
    assert "\n" not in str(error.value)
    assert not (latest(open_study, "instruction") / "instruction.txt").exists()


def test_training_files_that_disagree_are_refused(open_study, publish):
    files = (RawFile("one.jsonl"), RawFile("two.jsonl"))
    study = changed(open_study, "data.training", files)
    lay_down(study, "train-1", None, "A")
    lay_down(study, "train-2", None, "B")
    with pytest.raises(UserError, match="train-1 and train-2 have different system messages"):
        run_job(study, "instruction")


def test_a_job_before_the_data_says_what_to_do(open_study):
    with pytest.raises(UserError, match=r"instruction\.txt: missing, .* run the workflow again"):
        message(open_study)


def test_published_rows_give_their_own_opening_back(open_study, fixtures):
    """System and user message of an opening are those of the row, through the whole path."""
    raw = fixtures / "atpo_dialogues.jsonl"
    for name in ("train", "dev", "few"):
        convert(open_study, name, raw)
    study = changed(changed(open_study, "data.sft_cases", 1), "protocol.prompt_tokens", 1000)
    study = changed(study, "rl.cases_per_update", 2)
    prepare(study)
    chat = chat_format(latest_task(study, "sft"), latest(study, "base") / "base")
    rows = [json.loads(line) for line in raw.read_text().splitlines()]
    cases = read_cases(Jobs(study).cases("dev").latest)
    assert len(cases) == len(rows)
    for case, row in zip(cases, rows, strict=True):
        assert chat.open(case.public) == chat.encode(chat.render(row["prompt"]))


def test_released_conversations_with_another_message_are_named(open_study, publish, fixtures):
    publish("train", SAID)
    study = changed(open_study, "data.sft", RawFile("atpo_sft.jsonl"))
    convert(study, "sft", fixtures / "atpo_sft.jsonl")
    note = "3 of 3 SFT conversations carry another system message than the study's"
    assert any(line.startswith(note) for line in prepare(study))
    templates = Jobs(study).cases("train").latest.with_name("templates.json")
    (written,) = read_json(templates)["notes"]
    assert written.startswith(note)
    kept = {row["messages"][0]["content"] for _, row in read_jsonl(Jobs(study).cases("sft").latest)}
    assert kept == {"Choose one from A/B/C/D.", "Choose one."}
