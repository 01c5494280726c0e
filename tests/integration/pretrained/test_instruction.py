"""The actor's system message: the study's own, or the one that its published cases carry."""

import dataclasses
import hashlib
import json

import pytest
from helpers import INSTRUCTION

from data_prep.convert import convert_file
from data_prep.prepare import prepare
from pcqc.cases.case import read_cases
from pcqc.cli import main
from pcqc.errors import UserError
from pcqc.jobs.setup import chat_format
from pcqc.study import ROOT, RawFile, load_study
from pcqc.study.instruction import instruction_files, read_instruction
from pcqc.study.job_outputs import job_output
from pcqc.study.paths import Paths
from pcqc.system.files import read_json, read_jsonl

SAID = "Ask, or choose an option.\r\nOne question at a time.\n"


@pytest.fixture
def open_study(study):
    """A study that leaves the system message to its published cases."""
    return dataclasses.replace(
        study, protocol=dataclasses.replace(study.protocol, instruction=None, prompt_tokens=200)
    )


def manifest_of(study) -> dict:
    return read_json(Paths.of(study).data / "manifest.json")["instruction"]


def test_the_training_cases_message_is_the_actors_in_sft_rl_and_evaluation(open_study, publish):
    publish("train", SAID)
    publish("dev", "Other words.")
    notes = prepare(open_study)
    paths = Paths.of(open_study)
    assert read_instruction(open_study) == SAID
    assert instruction_files(open_study) == [paths.instruction]
    assert chat_format(open_study, paths.model("base")).instruction == SAID
    written = [row["messages"][0]["content"] for _, row in read_jsonl(paths.conversations)]
    assert set(written) == {SAID}
    assert manifest_of(open_study) == {
        "from": "train",
        "sha256": hashlib.sha256(SAID.encode()).hexdigest(),
        "published_otherwise": ["dev"],
    }
    assert notes == [
        f"the actor's system message is that of train, {len(SAID)} characters",
        "dev was published with another system message than the actor's",
    ]


def test_where_training_carries_none_the_development_benchmark_says_it(open_study, publish):
    publish("dev", SAID)
    publish("few", "Words of a benchmark that is not for development.")
    prepare(open_study)
    assert read_instruction(open_study) == SAID
    assert manifest_of(open_study)["from"] == "dev"


def test_a_study_s_own_message_stands_and_the_published_one_is_named(study, publish):
    publish("train", SAID)
    publish("dev", INSTRUCTION)
    assert prepare(study) == ["train was published with another system message than the actor's"]
    assert read_instruction(study) == INSTRUCTION
    assert manifest_of(study)["from"] == "protocol.instruction"
    assert not Paths.of(study).instruction.exists()
    assert instruction_files(study) == []
    with pytest.raises(UserError, match="no set 'instruction'"):
        prepare(study, "instruction")


@pytest.mark.parametrize(
    ("published", "said"),
    [
        ({}, "neither the training cases nor those of 'dev' have a system message; give the"),
        ({"train": ("A", "B", "C")}, "train.card.json: the rows have 3 different system messages"),
        ({"dev": ("A", "B")}, "dev.card.json: the rows have 2 different system messages"),
    ],
)
def test_no_one_message_is_an_error_in_one_line(open_study, publish, published, said):
    for name, systems in published.items():
        publish(name, *systems)
    with pytest.raises(UserError, match=said) as error:
        prepare(open_study)
    assert "give the study protocol.instruction" in str(error.value)
    assert "\n" not in str(error.value)
    assert not Paths.of(open_study).instruction.exists()


def test_training_files_that_disagree_are_refused(open_study, publish):
    files = (RawFile("one.jsonl"), RawFile("two.jsonl"))
    study = dataclasses.replace(
        open_study, data=dataclasses.replace(open_study.data, training=files)
    )
    publish("train-1", "A")
    publish("train-2", "B")
    with pytest.raises(UserError, match="train-1 and train-2 have different system messages"):
        prepare(study, "instruction")


def test_a_job_before_the_data_says_what_to_do(open_study):
    with pytest.raises(UserError, match=r"instruction\.txt: missing; run `pcqc prepare tiny`"):
        chat_format(open_study, Paths.of(open_study).model("base"))


def test_published_rows_give_their_own_opening_back(open_study, fixtures):
    """System and user message of an opening are those of the row, through the whole path."""
    raw = fixtures / "atpo_dialogues.jsonl"
    for name in ("train", "dev", "few"):
        convert_file(raw, Paths.of(open_study).converted(name))
    study = dataclasses.replace(
        open_study,
        data=dataclasses.replace(open_study.data, sft_cases=1),
        protocol=dataclasses.replace(open_study.protocol, prompt_tokens=1000),
    )
    prepare(study)
    paths = Paths.of(study)
    chat = chat_format(study, paths.model("base"))
    rows = [json.loads(line) for line in raw.read_text().splitlines()]
    cases = read_cases(paths.cases("dev"))
    assert len(cases) == len(rows)
    for case, row in zip(cases, rows, strict=True):
        assert chat.open(case.public) == chat.encode(chat.render(row["prompt"]))


def test_released_conversations_with_another_message_are_named(
    open_study, publish, fixtures, capsys, monkeypatch
):
    publish("train", SAID)
    study = dataclasses.replace(
        open_study, data=dataclasses.replace(open_study.data, sft=RawFile("atpo_sft.jsonl"))
    )
    convert_file(fixtures / "atpo_sft.jsonl", Paths.of(study).converted("sft"))
    monkeypatch.setattr("pcqc.study.load_study", lambda name: study)
    assert main(["prepare", "tiny"]) == 0
    note = "3 of 3 SFT conversations carry another system message than the study's"
    assert note in capsys.readouterr().out
    (written,) = read_json(Paths.of(study).data / "templates.json")["notes"]
    assert written.startswith(note)
    kept = {row["messages"][0]["content"] for _, row in read_jsonl(Paths.of(study).conversations)}
    assert kept == {"Choose one from A/B/C/D.", "Choose one."}


@pytest.mark.parametrize("name", ["paper", "real"])
def test_the_studies_of_published_cases_leave_it_to_them(name):
    assert load_study(name).protocol.instruction is None


def test_a_clinic_without_an_instruction_is_refused(tmp_path):
    text = (ROOT / "config" / "studies" / "clinic-mini.yaml").read_text()
    start = text.index("  instruction:")
    (tmp_path / "mine.yaml").write_text(text[:start] + text[text.index("  max_turns:") :])
    with pytest.raises(UserError, match=r"protocol.instruction: missing; add it"):
        load_study(tmp_path / "mine.yaml")


def test_other_words_are_another_run(open_study, publish):
    """The fingerprints of all jobs that consult cover the file's text."""
    publish("train", SAID)
    prepare(open_study)
    paths = Paths.of(open_study)
    jobs = [("sft",), *((job, "pcqc", "A") for job in ("train", "evaluate", "continuation"))]

    def fingerprints() -> list[str]:
        return [job_output(open_study, *job).today.fingerprint for job in jobs]

    before = fingerprints()
    assert fingerprints() == before
    paths.instruction.write_text("Other words.")
    assert all(new != old for new, old in zip(fingerprints(), before, strict=True))
