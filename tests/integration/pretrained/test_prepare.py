"""From converted cases to a study's: what is left out is named and counted, and nothing leaks."""

import csv
import dataclasses
import json
import re
import shutil

import pytest
from damage import DAMAGES
from hand_made import finish_job, folder_of
from helpers import INSTRUCTION, changed, make_case, make_tokenizer, tiny_model
from real_data import convert, lay_down, prepare, prepared

from data_prep.convert import convert_file
from pcqc.cases.case import read_cases
from pcqc.cases.chat import ChatFormat
from pcqc.models.folder import load_tokenizer, save_model
from pcqc.training.sft import read_conversations
from pcqc_base.errors import UserError
from pcqc_base.settings import Pretrained, RawFile
from pcqc_base.system.files import read_json, read_jsonl
from pcqc_study.graph import Jobs, latest
from pcqc_study.run_job import run_job


def test_every_case_is_used_or_excluded_with_its_reason(study):
    prepare(study)
    counts, excluded = {"train": 12, "dev": 6, "few": 9}, {}
    for name in counts:
        with open(
            Jobs(study).cases(name).latest.with_suffix(".exclusions.csv"), newline=""
        ) as file:
            excluded |= {row["case_id"]: row for row in csv.DictReader(file)}
    assert set(excluded) == {f"{n}-{i}" for n, c in counts.items() for i in (c - 2, c - 1)}
    assert "no facts" in excluded["train-10"]["reason"]
    assert "exceeds protocol.prompt_tokens = 160; raise it" in excluded["dev-5"]["reason"]
    assert excluded["dev-5"]["row"] == "5"
    assert [case.case_id for case in read_cases(Jobs(study).cases("dev").latest)] == [
        f"dev-{i}" for i in range(4)
    ]
    assert prepared(study, "dev")["excluded"] == {
        **{"nothing to ask": 1, "prompt too long": 1, "facts too long": 0}
    }
    assert prepared(study, "train")["rows"]["train.jsonl"] == 6


def test_another_benchmark_leaves_the_other_sets_alone(study):
    before = {name: folder_of(study, "prepare", name) for name in ("train", "dev", "few")}
    study = changed(study, "benchmarks.few.cases", 4)
    after = {name: folder_of(study, "prepare", name) for name in before}
    assert [name for name in before if before[name] != after[name]] == ["few"]
    with pytest.raises(UserError, match="has no set 'fee'; did you mean 'few'"):
        prepare(study, "fee")


def test_a_subset_keeps_the_order_and_is_drawn_anew_with_another_seed(study):
    drawn = []
    for seed in (0, 0, 1):
        prepare(changed(study, "data.seed", seed))
        drawn.append([case.case_id for case in read_cases(Jobs(study).cases("few").latest)])
    assert drawn[0] == drawn[1] == sorted(drawn[0])
    assert drawn[1] != drawn[2]
    assert all(len(ids) == 3 for ids in drawn)


def whole(study, **settings):
    """The study without subsets, with other settings of its data."""
    data = dataclasses.replace(study.data, subset=False, **settings)
    return changed(dataclasses.replace(study, data=data), "benchmarks.few.cases", 7)


def test_counts_that_the_study_names_are_checked(study):
    prepare(whole(study, training_cases=10, training_sets={"None": 10}))
    with pytest.raises(UserError, match=r"'train' has 10 usable cases \(2 more .* not 11 as"):
        prepare(whole(study, training_cases=11))
    with pytest.raises(UserError, match=r"are None 10, not mcqa 4, medqa 6 as data.training_sets"):
        prepare(whole(study, training_sets={"medqa": 6, "mcqa": 4}))
    with pytest.raises(UserError, match=r"'few' has 7 usable cases .* not 3 as the study says"):
        prepare(changed(whole(study), "benchmarks.few.cases", 3), "few")


def test_cases_of_written_conversations_train_nothing_else(study):
    prepare(study)
    taught = {row["case_id"] for _, row in read_jsonl(Jobs(study).cases("sft").latest)}
    trained = {case.case_id for case in read_cases(Jobs(study).cases("train").latest)}
    assert len(taught) == 4
    assert not taught & trained
    assert taught | trained == {f"train-{i}" for i in range(10)}
    assert prepared(study, "train")["sft"] == "written by data_prep.conversations"
    templates = Jobs(study).cases("train").latest.with_name("templates.json")
    assert read_json(templates)["as_template"] == 8


def test_conversations_over_the_actors_limit_are_left_out_and_listed(study):
    rows = [
        make_case(i, case_id=f"train-{i}", facts=("He coughs. " * (100 if i % 2 else 1),))
        for i in range(12)
    ]
    origin = {"file": "train.jsonl"}
    rows = [dataclasses.replace(r, origin={**origin, "row": i}) for i, r in enumerate(rows)]
    lay_down(study, "train", rows)
    # Both the topic of the facts and another are asked about.
    study = changed(changed(study, "data.sft_questions", (2,)), "data.sft_cases", 8)
    study = changed(study, "protocol.response_tokens", 900)
    prepare(study)
    folder = Jobs(study).cases("sft").latest.parent
    kept = [row["case_id"] for _, row in read_jsonl(folder / "sft.jsonl")]
    with open(folder / "sft.exclusions.csv", newline="") as file:
        excluded = list(csv.DictReader(file))
    assert len(kept) + len(excluded) == 8
    assert all(int(name.removeprefix("train-")) % 2 == 0 for name in kept)
    assert all(int(row["row"]) % 2 == 1 for row in excluded)
    assert re.fullmatch(
        r"its conversation of 1,?\d{3} tokens exceeds protocol.prompt_tokens \+ "
        r"protocol.response_tokens = 1060",
        excluded[0]["reason"],
    )
    assert prepared(study, "train")["excluded"]["conversation too long"] == len(excluded)
    assert prepared(study, "train")["rows"]["sft.jsonl"] == len(kept)
    with pytest.raises(UserError, match="none of 8 conversations for SFT has at most 161 tokens"):
        prepare(changed(study, "protocol.response_tokens", 1))


def test_conversations_that_take_every_case_are_refused(study):
    with pytest.raises(UserError, match="sft_cases = 10 leaves none of 10 training cases"):
        prepare(changed(study, "data.sft_cases", 10))


def test_a_limit_that_no_prompt_meets_is_refused(study):
    with pytest.raises(UserError) as error:
        prepare(changed(study, "protocol.prompt_tokens", 20))
    assert str(error.value) == (
        "'train': none of its 12 cases can be used; the first, train.jsonl, line 0: its prompt of "
        "148 tokens exceeds protocol.prompt_tokens = 20; raise it, or shorten the case"
    )
    assert not Jobs(study).cases("train").latest.exists()


def reads(study, role, tokens):
    """The study with a model of its own for a role, which reads so many tokens."""
    study = changed(study, f"models.{role}", Pretrained(f"reads {tokens}"))
    for folder in ("base", "patient_base"):
        longest = tokens if folder == study.starts_from(role) else 4096
        model = tiny_model(max_position_embeddings=longest)
        save_model(folder_of(study, "base") / folder, model, make_tokenizer())
    finish_job(study, "base")
    return study


def test_facts_that_the_patient_cannot_read_are_left_out_to_the_token(study):
    """Beside them stand the longest question and the longest answer."""
    rows = [make_case(i, case_id=f"dev-{i}", origin={"file": "d", "row": i}) for i in range(4)]
    rows[2] = dataclasses.replace(rows[2], facts=(*rows[2].facts, "He has a dog."))
    lay_down(study, "dev", rows)
    chat = ChatFormat(make_tokenizer(), INSTRUCTION)
    shorter, longer = (len(chat.patient(rows[i].facts, "")) for i in (0, 2))
    beside = study.protocol.action_tokens + study.patient_decoding.max_tokens
    for context, left_out in ((longer + beside, []), (longer + beside - 1, ["dev-2"])):
        study = reads(study, "patient", context)
        prepare(study, "dev")
        path = Jobs(study).cases("dev").latest.with_suffix(".exclusions.csv")
        with open(path, newline="") as file:
            excluded = list(csv.DictReader(file))
        assert [row["case_id"] for row in excluded] == left_out
        assert prepared(study, "dev")["excluded"]["facts too long"] == len(left_out)
    assert (excluded[0]["file"], excluded[0]["row"]) == ("d", "2")
    assert (
        f"its facts has {longer} tokens; the patient's model reads {context}, of which"
        in (excluded[0]["reason"])
    )
    assert excluded[0]["reason"].endswith("shorten the facts, or name a patient that reads more")
    with pytest.raises(UserError, match=f"none of its 4 cases can be used.* has {shorter} tokens"):
        prepare(reads(study, "patient", shorter + beside - 1), "dev")


def test_a_consultation_that_the_actor_cannot_read_is_refused_and_the_remedy_holds(study):
    """To the token, of the longest case; a limit that no case comes near refuses none."""
    study = changed(study, "protocol.prompt_tokens", 1000)
    rows = [make_case(i, case_id=f"dev-{i}", origin={"file": "d", "row": i}) for i in range(4)]
    rows[2] = dataclasses.replace(rows[2], initial=f"{rows[2].initial} And so on and on.")
    lay_down(study, "dev", rows)
    chat, response = ChatFormat(make_tokenizer(), INSTRUCTION), study.protocol.response_tokens
    longest = len(chat.open(rows[2].public))
    prepare(reads(study, "actor", longest + response), "dev")
    assert not sum(prepared(study, "dev")["excluded"].values())
    short = reads(study, "actor", longest + response - 1)
    with pytest.raises(UserError) as error:
        prepare(short, "dev")
    assert str(error.value).startswith(f"d, line 2: its prompt of {longest} tokens and a response")
    lower = re.search(r"lower protocol.prompt_tokens to (\d+), which leaves", str(error.value))[1]
    prepare(changed(short, "protocol.prompt_tokens", int(lower)), "dev")
    assert prepared(study, "dev")["excluded"]["prompt too long"] == 1


@pytest.mark.parametrize("setting", ["rl.cases_per_update", "methods.grpo.rl"])
def test_too_few_cases_for_an_update_end_the_preparation(study, setting):
    """Ten can be used, four of them are taught; before, training said so, with models loaded."""

    def with_updates_of(count):
        return changed(study, setting, {"cases_per_update": count} if "grpo" in setting else count)

    prepare(with_updates_of(6), "train")
    shutil.rmtree(study.results / "data" / "train")
    with pytest.raises(UserError) as error:
        prepare(with_updates_of(7), "train")
    assert str(error.value) == (
        f"{study.raw_files['train'].path}: 6 cases are left to train on (4 are taught "
        "(data.sft_cases), 2 are excluded), and an update takes 7; lower rl.cases_per_update, or "
        "add cases"
    )


@pytest.mark.parametrize(("name", "role"), [("base", "actor"), ("patient_base", "patient")])
def test_a_template_into_which_no_consultation_fits_ends_it(study, name, role):
    """Of the patient's model too, which is used only after SFT."""
    study = changed(study, f"models.{role}", Pretrained("another"))
    for folder in ("base", "patient_base"):
        tokenizer = make_tokenizer()
        if folder == name:
            tokenizer.chat_template += "{{ strftime_now('%d %b %Y') }}"
        save_model(folder_of(study, "base") / folder, tiny_model(), tokenizer)
    finish_job(study, "base")
    with pytest.raises(UserError, match=f"{name}: its chat template writes the time"):
        prepare(study, "train")


def test_released_conversations_are_trained_on_their_last_turn(study, fixtures):
    study = changed(study, "data.sft", RawFile("atpo_sft.jsonl"))
    assert list(study.raw_files) == ["train", "sft", "dev", "few"]
    convert(study, "sft", fixtures / "atpo_sft.jsonl")
    with pytest.raises(UserError, match=r"has 3 rows, not 4 as data.conversations says"):
        prepare(changed(study, "data.conversations", 4))
    prepare(study)
    rows = [json.loads(line) for line in (fixtures / "atpo_sft.jsonl").read_text().splitlines()]
    conversations = read_conversations(Jobs(study).cases("sft").latest)
    assert len(conversations) == len(rows)
    for conversation, row in zip(conversations, rows, strict=True):
        assert conversation.train == "last"
        response = conversation.messages[-1]["content"]
        assert row["response"].startswith(f"{response}<|im_end|>")
    assert prepared(study, "train")["rows"]["train.jsonl"] == 10
    templates = Jobs(study).cases("train").latest.with_name("templates.json")
    assert read_json(templates)["other_instruction"] == 3


def test_cases_of_ones_own_are_taken_as_they_are(fixtures, tmp_path):
    raw, made = fixtures / "cases.jsonl", tmp_path / "made.jsonl"
    convert_file(raw, made)
    kept = [(c.case_id, c.initial, c.options, list(c.facts), c.answer) for c in read_cases(made)]
    rows = [json.loads(line) for line in raw.read_text().splitlines()]
    assert kept == [
        tuple(row[name] for name in ("case_id", "initial", "options", "facts", "answer"))
        for row in rows
    ]
    (tmp_path / "twice.jsonl").write_text(raw.read_text() + raw.read_text().splitlines()[0])
    with pytest.raises(UserError, match="line 3: an earlier row has the id 'mine-0001' too"):
        convert_file(tmp_path / "twice.jsonl", made)


@pytest.fixture
def no_model(monkeypatch):
    """Loading a tokenizer or a model fails, so that what ends before is told from what does not."""

    def load(*_):
        raise AssertionError("a model was asked for")

    monkeypatch.setattr("pcqc.jobs.instruction.load_tokenizer", load)
    monkeypatch.setattr("pcqc.jobs.make_roles.load_model", load)
    return load


def two_files(study, name="cases", **rows):
    """The study with two training files of these rows, converted."""
    files = tuple(RawFile(f"{folder}/{name}.jsonl") for folder in rows)
    study = whole(study, training=files)
    for number, own in enumerate(rows.values(), start=1):
        raw = study.raw_files[f"train-{number}"].path
        raw.parent.mkdir(parents=True, exist_ok=True)
        raw.write_text("".join(json.dumps(row) + "\n" for row in own))
        run_job(study, "convert", f"train-{number}")
    return study


def own_rows(*ids):
    texts = {"source": "mine", "question": "Why?", "options": {"A": "Flu", "B": "Cold"}}
    rest = texts | {"facts": ["He is tired.", "No cough."], "answer": "A"}
    return [{"case_id": name, "initial": f"Patient {name} limps.", **rest} for name in ids]


def test_an_id_of_two_training_files_ends_the_preparation_by_both_raw_files(study, no_model):
    study = two_files(study, one=own_rows("a", "b", "c"), two=own_rows("d", "e", "b"))
    with pytest.raises(UserError) as error:
        prepare(study, "train")
    first, second = (study.raw_files[f"train-{n}"].path for n in (1, 2))
    assert str(error.value) == (
        f"{second}, line 3: the case 'b' is in {first}, line 2, too; rename or remove one of them"
    )


def test_an_id_that_was_renamed_as_the_line_says_is_no_fault(study):
    study = two_files(study, one=own_rows("a", "b", "c"), two=own_rows("d", "e", "B"))
    study = changed(study, "data.sft_cases", 2)  # of six: an update takes four
    prepare(study, "train")
    taught = [row["case_id"] for _, row in read_jsonl(Jobs(study).cases("sft").latest)]
    trained = [case.case_id for case in read_cases(Jobs(study).cases("train").latest)]
    assert sorted(taught + trained) == ["B", "a", "b", "c", "d", "e"]


def test_ids_that_begin_with_a_file_s_name_are_told_apart_by_that(study, fixtures, no_model):
    rows = [json.loads(line) for line in (fixtures / "mediq.jsonl").read_text().splitlines()]
    with pytest.raises(UserError) as error:
        prepare(two_files(study, one=rows, two=rows), "train")
    assert str(error.value).endswith(
        "too; ids begin with the file's name: give one of the files another"
    )
    study = two_files(study, one=rows[:1], two=rows[:1])
    study = whole(study, training=(study.data.training[0], RawFile("two/others.jsonl")))
    raw = study.raw_files["train-2"].path
    raw.write_text(json.dumps(rows[0]))
    run_job(study, "convert", "train-2")
    with pytest.raises(AssertionError, match="a model was asked for"):
        prepare(study, "train")


def test_a_released_conversation_is_left_out_one_token_over_the_limit(study, fixtures):
    study = changed(study, "data.sft", RawFile("atpo_sft.jsonl"))
    convert(study, "sft", fixtures / "atpo_sft.jsonl")
    prepare(study)
    chat = ChatFormat(load_tokenizer(latest(study, "base") / "base"), INSTRUCTION)
    rows = [row["messages"] for _, row in read_jsonl(Jobs(study).cases("sft").latest)]
    lengths = [sum(map(len, chat.turns(messages, "keep")[-1])) for messages in rows]
    longest = max(lengths)
    for limit, left_out in ((longest, []), (longest - 1, [str(lengths.index(longest) + 1)])):
        study = changed(study, "protocol.response_tokens", limit - study.protocol.prompt_tokens)
        prepare(study, "train")
        path = Jobs(study).cases("sft").latest.with_suffix(".exclusions.csv")
        with open(path, newline="") as file:
            assert [row["row"] for row in csv.DictReader(file)] == left_out


def test_rows_are_counted_before_a_model_is_asked_for(study, fixtures, no_model):
    study = whole(changed(study, "data.sft", RawFile("atpo_sft.jsonl")), conversations=9)
    convert(study, "sft", fixtures / "atpo_sft.jsonl")
    with pytest.raises(UserError, match=r"has 3 rows, not 9 as data\.conversations says"):
        prepare(study, "train")


@pytest.fixture
def whole_data(study, fixtures):
    """The study with all its data."""
    study = changed(study, "data.sft", RawFile("atpo_sft.jsonl"))
    convert(study, "sft", fixtures / "atpo_sft.jsonl")
    prepare(study)
    return study


@pytest.mark.parametrize(
    ("converted", "job"), [("train", "train"), ("sft", "train"), ("few", "few")]
)
def test_who_reads_converted_cases_compares_them_first(whole_data, converted, job):
    DAMAGES["a byte flipped"](latest(whole_data, "convert", converted) / f"{converted}.jsonl")
    shutil.rmtree(whole_data.results / "data" / job)
    with pytest.raises(UserError, match="altered since it was written; move"):
        prepare(whole_data, job)
