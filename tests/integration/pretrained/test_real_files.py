"""The published files and a pretrained model, from raw rows to the report, as a user has them.

`tests/long/test_real_dag.py` goes the same way with rows written by hand and a tiny model.
"""

import csv
import re
import shutil

import pytest
from torch.cuda import is_available as find_gpu
from workplace import Workplace

from pcqc_base.system.checkout import ROOT
from pcqc_base.system.files import read_json, read_jsonl
from pcqc_base.system.manifest import read_manifest

pytestmark = pytest.mark.slow
NAME = "few"
# `real-smoke` with fewer cases and shorter replies.
FEW = """\
like: real-smoke
data: {training_cases: 12, sft_cases: 8}
benchmarks:
  medqa: {cases: 2}
  medical_exam: {cases: 2}
  icraft_md: {cases: 2}
protocol: {max_turns: 2, response_tokens: 90, action_tokens: 24}
actor_decoding: {max_tokens: 24}
patient_decoding: {max_tokens: 12}
sft: {batch_size: 4}
methods:
  grpo: {terminal_group: 2, updates: 1}
  pcqc: {question_group: 2, updates: 1}
"""
# Cases of each file, and rows that contradict themselves.
FILES = {
    "train": ("mediq/medqa_dev_convo.jsonl", 1272, 0),
    "medqa": ("atpo/medqa_test_dataset.jsonl", 1268, 0),
    "medical_exam": ("atpo/aie_test_dataset.jsonl", 150, 0),
    "icraft_md": ("mediq/all_craft_md.jsonl", 139, 1),
}
# A newborn with yellow skin and a girl after a buffet are in MEDIQ's file and in MedQA's.
SAME = ["a three-day-old, full-term infant", "an 8-year-old girl presents"]


# Files that are not at ../shared, and what stands in for them.
NOT_SHARED = {
    "atpo/mcqa_test_dataset.jsonl": "atpo_dialogues.jsonl",
    "atpo/merged_train_dataset.jsonl": "atpo_dialogues.jsonl",
    "atpo/sft_training_data.jsonl": "atpo_sft.jsonl",
    "own/train.jsonl": "cases.jsonl",
    "own/test.jsonl": "cases.jsonl",
}
# Studies that this machine cannot finish, and what their last line says.
ENDS = {
    "real": r"Qwen/Qwen3-0\.6B at revision \w+: not on this machine; download it with ",
    "paper": r"Qwen/Qwen3-8B at revision \w+: not on this machine; download it with ",
    "real-smoke-gpu": r"placement\.device is GPU, but no GPU can be used here \(.*\); run ",
}
STUDIES = sorted(path.stem for path in (ROOT / "config" / "studies").glob("*.yaml"))


@pytest.fixture(scope="module")
def data(published, tmp_path_factory):
    """A folder with the published files that a test reads, each of which must be there."""
    folder = tmp_path_factory.mktemp("published")
    for path, _, _ in FILES.values():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).symlink_to(published(path).resolve())
    return folder


@pytest.fixture(scope="module")
def whole(data, fixtures, tmp_path_factory):
    """A folder with every file that a study names."""
    folder = shutil.copytree(data, tmp_path_factory.mktemp("whole") / "data", symlinks=True)
    for name, stand_in in NOT_SHARED.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).symlink_to(fixtures / stand_in)
    return folder


@pytest.fixture(scope="module")
def results(data, smollm2_folder, tmp_path_factory):
    """Results of the whole study."""
    place = Workplace(tmp_path_factory.mktemp("real") / "place")
    (place.folder / f"config/studies/{NAME}.yaml").write_text(FEW)
    done = place.run([*place.workflow(study=NAME), f"data={data}"])
    assert done.returncode == 0, done.stderr[-3000:]
    return place.folder / "results" / NAME


def test_every_row_is_converted_or_excluded(results):
    for name, (_, cases, excluded) in FILES.items():
        card = read_json(results / f"data/converted/{name}/latest/{name}.card.json")
        assert (card["cases"], len(card["exclusions"])) == (cases, excluded)


def test_cases_of_training_and_of_evaluation_that_are_nearly_the_same_are_listed(results):
    with open(results / "data/overlap/latest/pairs.csv", newline="") as file:
        pairs = list(csv.DictReader(file))
    assert {pair["evaluation"] for pair in pairs} == {"medqa"}
    prompts = sorted(pair["evaluation_prompt"] for pair in pairs)
    assert [prompt[: len(start)] for prompt, start in zip(prompts, SAME, strict=True)] == SAME


def test_a_conversation_over_the_actors_limit_is_left_out_and_listed(results):
    folder = results / "data/train/latest"
    kept = [row["case_id"] for _, row in read_jsonl(folder / "sft.jsonl")]
    with open(folder / "sft.exclusions.csv", newline="") as file:
        excluded = list(csv.DictReader(file))
    assert len(kept) + len(excluded) == 8
    assert excluded
    for row in excluded:
        assert row["file"] == "medqa_dev_convo.jsonl"
        assert row["reason"].endswith("protocol.prompt_tokens + protocol.response_tokens = 250")
    assert read_manifest(folder)["excluded"]["conversation too long"] == len(excluded)
    agreement = read_json(folder / "templates.json")
    assert agreement["as_template"] == agreement["turns"] == 2 * len(kept)


def test_every_method_is_trained_and_evaluated_on_every_file(results):
    for method in ("shared_sft", "grpo", "pcqc"):
        evaluated = read_manifest(results / f"evaluation/{method}/A/latest")["benchmarks"]
        assert {name: summary["cases"] for name, summary in evaluated.items()} == {
            "medqa": 2,
            "medical_exam": 2,
            "icraft_md": 2,
        }
    for method in ("grpo", "pcqc"):
        events = [row for _, row in read_jsonl(results / f"runs/{method}/A/latest/events.jsonl")]
        assert [row["kind"] for row in events] == ["update", "validation"]


def test_the_report_says_what_it_is_and_what_was_missing(results):
    report = (results / "report.html").read_text()
    assert "This is a test of the path." in report
    assert "Benchmarks left out, as their files were missing: medmcqa" in report


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_goes_as_far_as_this_machine_allows(whole, tmp_path, name):
    """To the first model or device that is missing, in one line; the others are planned whole."""
    place = Workplace(tmp_path / "place")
    command = [*place.workflow("--keep-going", study=name), f"data={whole}"]
    if name not in ENDS:
        done = place.run([*command, "--dry-run"])
        assert done.returncode == 0, done.stderr[-3000:]
        assert f"results/{name}/report.html" in done.stdout + done.stderr
        return
    if "gpu" in name and find_gpu():
        pytest.skip("this machine has a GPU")
    done = place.run(command, HF_HOME=str(tmp_path / "hub"))
    assert done.returncode != 0
    assert re.match(f"pcqc: error: {ENDS[name]}", done.stderr.splitlines()[-1])
    made = {path.parts[-3] for path in place.folder.glob("results/*/data/converted/*/latest/*")}
    assert made >= {"medqa", "medical_exam", "medmcqa", "icraft_md"}
