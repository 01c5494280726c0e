"""The published files against a second reader, which shares no code with the converters."""

import json

import pandas as pd
import pytest
from second_reader import read

from data_prep.convert import convert_file
from data_prep.parts import SPACES, SYNONYM
from data_prep.sources import load_sources
from pcqc.cases.prompts import actor_prompt
from pcqc_base.system.files import read_json, sha256_file
from pcqc_study.paired import compare

FILES = {
    "medqa": ("atpo/medqa_test_dataset.jsonl", 1268),
    "medical_exam": ("atpo/aie_test_dataset.jsonl", 150),
    "medmcqa": ("atpo/mcqa_test_dataset.jsonl", 536),
    "icraft_md": ("mediq/all_craft_md.jsonl", 139),
    "mediq_dev": ("mediq/medqa_dev_convo.jsonl", 1272),
}


@pytest.fixture(params=FILES)
def converted(request, published, tmp_path):
    """Source, raw rows as the second reader has them, and what the converter made of the file."""
    name, count = FILES[request.param]
    raw = published(name)
    conversion = convert_file(raw, tmp_path / "cases.jsonl")
    assert len(conversion.records) == count
    rows = [read(json.loads(line)) for line in raw.open(encoding="utf-8")]
    return request.param, rows, conversion


def test_no_fact_option_or_label_is_changed(converted):
    source, rows, conversion = converted
    seen = set()
    for case in conversion.records:
        row = rows[case.origin["row"] - 1]
        seen.add(case.origin["row"])
        assert (case.initial, case.question) == (row.initial, row.question)
        assert list(case.options.items()) == list(row.options.items())
        assert case.answer == row.label
        assert list(case.facts) == row.facts
        assert case.source == source
    assert len(seen) == len(conversion.records)
    assert len({case.case_id for case in conversion.records}) == len(seen)
    assert seen | {e.row for e in conversion.exclusions} == set(range(1, len(rows) + 1))


def test_ids_are_the_same_in_csv_and_in_parquet(converted, tmp_path):
    _, _, conversion = converted
    ids = [case.case_id for case in conversion.records]
    frame = pd.DataFrame({"case_id": ids, "correct": [n % 3 == 0 for n in range(len(ids))]})
    frame.to_parquet(tmp_path / "a.parquet")
    frame.sample(frac=1, random_state=0).to_csv(tmp_path / "b.csv", index=False)
    compared = compare(tmp_path / "a.parquet", tmp_path / "b.csv").loc["cases"]
    assert (compared["cases"], compared["only_a"], compared["only_b"]) == (
        len(ids),
        0,
        0,
    )


@pytest.mark.parametrize("name", FILES)
def test_the_pinned_digest_is_the_file_s(name, published):
    source = load_sources()[name]
    path = published(source.file)
    assert (sha256_file(path), path.stat().st_size) == (source.sha256, source.bytes)


def test_the_prompt_is_the_source_s_own(published, tmp_path):
    """What the actor is shown first are, byte for byte, the two messages that ATPO publishes."""
    for name in ("atpo/medqa_test_dataset.jsonl", "atpo/aie_test_dataset.jsonl"):
        raw = published(name)
        messages = [[m["content"] for m in json.loads(line)["prompt"]] for line in raw.open()]
        cases = convert_file(raw, tmp_path / "cases.jsonl").records
        system = read_json(tmp_path / "cases.card.json")["system_messages"]
        assert system["different"] == 1
        assert [[system["text"], actor_prompt(case.public)] for case in cases] == messages


def test_the_excluded_icraft_md_case_is_named(published, tmp_path):
    conversion = convert_file(published(FILES["icraft_md"][0]), tmp_path / "c.jsonl")
    (excluded,) = conversion.exclusions
    assert (excluded.row, excluded.case_id) == (130, "icraft_md-129")
    assert "'Pemphigus foliaceous' is option A, its label names option B" in excluded.reason
    assert conversion.notes == {
        SYNONYM: ["icraft_md-112"],
        SPACES: ["icraft_md-124", "icraft_md-132"],
    }
