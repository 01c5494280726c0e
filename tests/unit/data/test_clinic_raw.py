"""The clinic's raw files are read as published ones are, and nothing of a case is lost."""

import dataclasses
import json
from collections import Counter

import pytest

from data_prep.convert import convert_file
from pcqc.cases.case import read_cases
from pcqc.cases.sft_rows import read_sft_rows
from pcqc_base.settings import Benchmark
from pcqc_base.system.files import write_jsonl
from pcqc_clinic.build import (
    dialogue,
    draw_cases,
    draw_conversations,
    key_of_case,
    key_of_dialogue,
)
from pcqc_clinic.world import make_world
from pcqc_study.graph import Jobs
from pcqc_study.study_file import load_study

SAYS = "You are a doctor."
CLINIC = load_study("clinic")
WORLD = make_world(CLINIC.clinic)


@pytest.fixture
def cases():
    """Of the wording, base rates and few facts that a benchmark can have."""
    benchmark = Benchmark("T", "held_out", cases=40, options=(2, 8), recorded_facts=0.5)
    benchmark = dataclasses.replace(benchmark, wording="reported", base_rates="skewed")
    return draw_cases(WORLD, 0, "clinic_test", benchmark)


@pytest.mark.parametrize("system", [SAYS, None])
def test_conversion_gives_every_field_of_a_case_back(cases, system, tmp_path):
    raw, made = tmp_path / "clinic_test.jsonl", tmp_path / "cases.jsonl"
    write_jsonl(raw, (dialogue(case, system) for case in cases))
    conversion = convert_file(raw, made)
    assert not conversion.exclusions
    assert conversion.systems == ({system} if system else set())
    told = ("case_id", "initial", "question", "options", "facts", "answer")
    for case, read in zip(cases, read_cases(made), strict=True):
        assert [getattr(read, name) for name in told] == [getattr(case, name) for name in told]
        assert list(read.options) == list(case.options)
        assert read.origin["set"] == case.source == "clinic"
    assert json.loads((tmp_path / "cases.card.json").read_text())["format"] == "atpo-dialogues"


def test_a_case_has_the_key_of_its_row(cases):
    for system in (SAYS, None):
        rows = [dialogue(case, system) for case in cases]
        assert list(map(key_of_dialogue, rows)) == list(map(key_of_case, cases))
    again = draw_cases(
        *(WORLD, 0, "clinic_test", Benchmark("T", "held_out", cases=40)),
        before=map(key_of_case, cases),
    )
    assert not set(map(key_of_case, cases)) & set(map(key_of_case, again))


def test_a_conversation_is_trained_on_as_a_whole(tmp_path):
    held, drawn = draw_conversations(
        *(WORLD, 0, ()),
        **{"options": (4,), "conversations": 8, "questions": (2,), "asks": "random"},
        instruction=SAYS,
    )
    write_jsonl(tmp_path / "sft.jsonl", ({"messages": messages} for messages in held))
    convert_file(tmp_path / "sft.jsonl", tmp_path / "rows.jsonl")
    rows = read_sft_rows(tmp_path / "rows.jsonl")
    assert len(rows) == len(drawn) == 8
    for row, messages in zip(rows, held, strict=True):
        assert [*row.messages, {"role": "assistant", "content": row.response}] == messages
        assert row.train == "all"


def test_the_quick_study_has_the_jobs_of_the_papers_study():
    """Job for job, but for those that draw its cases; and as many continuations."""
    quick, paper = (
        Counter(
            job.kind
            for job in (
                *jobs.shared(),
                *(job for name in jobs.methods for job in jobs.method(name)),
            )
        )
        for jobs in (Jobs(CLINIC), Jobs(load_study("paper")))
    )
    assert quick.pop("clinic") == 7
    assert quick == paper
    assert quick["train"] == 18
    assert quick["convert"] == 6
    assert quick["overlap"] == quick["instruction"] == quick["sft"] == 1
    sizes = CLINIC.continuation
    assert sizes.states * sizes.candidates * sizes.continuations == 4096
    assert CLINIC.sft.epochs == load_study("paper").sft.epochs == 3
