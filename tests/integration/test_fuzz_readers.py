"""Damaged files and answers of strangers are read, or refused in one line; nothing else happens.

Converters of raw files have a fuzzer of their own (`tests/unit/data/test_fuzz_converters.py`).
"""

import contextlib
import io
import json
import lzma
import shutil
import struct
import tarfile

import pytest
import yaml
from fuzzing import QUICK, damaged_bytes, damaged_json
from helpers import INSTRUCTION, make_case
from hypothesis import given, settings
from hypothesis import strategies as st
from stub_server import chat, chat_likeliest, completion

from analysis.tar_files import unpack, whole_results
from clinic_env.v2.endpoint import Endpoint
from data_prep.own_table import json_lines
from pcqc.cases.chat import ChatFormat
from pcqc.engines.base import Completion, Failure, Request, Sampling
from pcqc.evaluation.grounding import CRITERIA, read_review
from pcqc.models.folder import end_tokens, load_model, load_tokenizer
from pcqc.models.pretrained import install
from pcqc_base.errors import UserError
from pcqc_base.settings import Pretrained
from pcqc_base.system.checkout import ROOT
from pcqc_base.system.manifest import read_manifest
from pcqc_gpu.engines.chat_server import Text
from pcqc_study.study_file import load_study
from pcqc_study.study_file.load import check_configurations
from pcqc_study.trials import COLUMNS, read_archive

MODEL = ROOT / "models" / "clinic-1" / "base"
SLOW = settings(QUICK, max_examples=max(QUICK.max_examples // 5, 10))  # of tens of milliseconds
SAMPLING = Sampling(temperature=0.7, top_p=0.9, max_tokens=4, stop=(2,))


@contextlib.contextmanager
def in_words(*kinds):
    """What refuses does so by a message of one line without control characters."""
    words = None
    try:
        yield
    except (UserError, *kinds) as refused:
        words = str(refused)
    assert words is None or (words and words.isprintable()), repr(words)


def fuzzed(read):
    """A test that gives `read` a damaged file's content, in an empty folder."""
    return QUICK(given(data=st.data())(read))


@pytest.fixture
def place(tmp_path):
    """Writes bytes under a name, in a folder that is empty each time."""

    def write(name, content):
        shutil.rmtree(tmp_path / "new", ignore_errors=True)
        (tmp_path / "new").mkdir()
        (tmp_path / "new" / name).write_bytes(content)
        return tmp_path / "new" / name

    return write


TABLE = b"""id,initial,question,A,B,C,answer,facts
1,"A cough, dry",What is it?,Asthma,Gout,,A,Fever for a day.|No pain.
2,Pain,What is it?,Gout,Migraine,"A ""cold"" one",C,The toe hurts.
"""


@fuzzed
def test_a_table_of_cases(place, data):
    with in_words():
        for line in json_lines(place("own.csv", data.draw(damaged_bytes(TABLE)))).splitlines():
            assert line == b"" or isinstance(json.loads(line), dict)


REVIEW = f"method,run,case_id,candidate,{','.join(CRITERIA)},note\n" + (
    'pcqc,A,clinic-1,0,yes,no,,fine\npcqc,A,\'=clinic-2,1,,,YES,"two, parts"\n'
)


@fuzzed
def test_a_review(place, data):
    with in_words():
        content = data.draw(damaged_bytes(REVIEW.encode()))
        for (case, candidate), decided in read_review(place("r.csv", content), "pcqc", "A").items():
            assert isinstance(case, str)
            assert candidate >= 0
            assert decided.keys() <= set(CRITERIA)


TRIALS = f"{','.join(COLUMNS)}\nclinic,pcqc,beta=1,1,A,61 62.5,4.5,640\n".encode()


@fuzzed
def test_an_archive_of_trials(place, data):
    with in_words():
        for outcome in read_archive(place("trials.csv", data.draw(damaged_bytes(TRIALS)))):
            assert outcome.accuracies
            assert isinstance(outcome.trajectories, int)


STUDY = (ROOT / "config" / "studies" / "clinic.yaml").read_bytes()
AS_JSON = json.dumps(yaml.safe_load(STUDY)).encode()


@SLOW
@given(data=st.data())
def test_a_study(place, data):
    with in_words():
        path = place("mine.yaml", data.draw(damaged_json(AS_JSON) | damaged_bytes(STUDY)))
        assert load_study(path).name == "mine"


MANIFEST = {
    "fingerprint": {"job": "train pcqc A", "settings": {"rl": {"beta": 1.0}}, "inputs": {}},
    "files": {"metrics.jsonl": "0" * 64},
    "machine": {"cpu": "x", "versions": {"torch": "2"}},
    "commit": "0" * 40,
}


@fuzzed
def test_a_manifest(place, data):
    content = data.draw(damaged_json(json.dumps(MANIFEST).encode()))
    with in_words():
        manifest = read_manifest(place("manifest.json", content).parent)
        assert manifest["files"].keys() <= json.loads(content)["files"].keys()


def tar_of(files):
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return held.getvalue()


TAR = tar_of(
    {
        "clinic/runs/pcqc/A/0a/manifest.json": json.dumps(MANIFEST).encode(),
        "clinic/runs/pcqc/A/0a/metrics.jsonl": b'{"update": 1}\n' * 40,
        f"clinic/runs/{'long' * 40}/é": b"x",
    }
)


@fuzzed
def test_a_bundle(place, data):
    """Nothing lies outside of the folder, whatever the headers say."""
    content = data.draw(damaged_bytes(TAR))
    packed = lzma.compress(content, preset=0)
    if data.draw(st.integers(0, 4)) == 0:
        packed = data.draw(damaged_bytes(packed))
    path = place("part.tar.xz", packed)
    (folder := path.parent / "in").mkdir()
    with in_words():
        unpack(path, folder)
        whole_results(folder, ["clinic"])
    beside = {entry.name for entry in path.parent.iterdir()}
    assert beside == {"part.tar.xz", "in"}
    assert all(p.is_dir() or p.is_file() for p in folder.rglob("*") if not p.is_symlink())
    assert not [p for p in folder.rglob("*") if p.is_symlink()]


def damaged_weights(content):
    """Weights with a damaged header, whose length fits mostly, or with damaged numbers."""
    (size,) = struct.unpack("<Q", content[:8])
    header, rest = content[8 : 8 + size], content[8 + size :]
    whole = damaged_json(header).map(lambda new: struct.pack("<Q", len(new)) + new + rest)
    return whole | damaged_bytes(content)


@pytest.mark.parametrize("name", sorted(p.name for p in MODEL.iterdir()))
def test_a_model(name, tmp_path_factory):
    """It is refused when it is copied into a study or read there, or it encodes and computes."""
    content = (MODEL / name).read_bytes()
    damaged = damaged_bytes(content)
    if name.endswith(".json"):
        damaged |= damaged_json(content)
    if name.endswith(".safetensors"):
        damaged = damaged_weights(content)

    @SLOW
    @given(data=st.data())
    def check(data):
        folder = tmp_path_factory.mktemp("model")
        shutil.copytree(MODEL, folder / "given")
        (folder / "given" / name).write_bytes(data.draw(damaged))
        source = Pretrained(str(folder / "given"))
        with in_words():
            check_configurations([source])
            install(source, folder / "base")
            tokenizer = load_tokenizer(folder / "base")
            chat_format = ChatFormat(tokenizer, INSTRUCTION, end_tokens(folder / "base"))
            tokens = chat_format.open(make_case(0).public)
            chat_format.decode(tokens)
            load_model(folder / "base")
        shutil.rmtree(folder)

    check()


SERVED = {
    "tokens": (None, completion([5, 6, 2])[1]),
    "chat": ("m", chat("Yes, for days.")[1]),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", SERVED)
@fuzzed
def test_a_served_answer(serve_all, kind, data):
    """A completion of what was asked for, or a failure that says what is wrong."""
    model, reply = SERVED[kind]
    engine, stub = serve_all(model)
    content = data.draw(damaged_json(reply.encode()))
    stub.reply = lambda body, attempt: (200, content.decode("utf-8", "replace"))
    prompt = Text().ask("Any cough?") if model else (1, 2, 3)
    with in_words():
        ((result,),) = engine.generate([Request(tuple(prompt), (7,))], SAMPLING)
        check_result(result, SAMPLING.max_tokens if not model else None)


def check_result(result, most):
    if isinstance(result, Failure):
        assert str(result).isprintable(), repr(str(result))
        return
    assert isinstance(result, Completion)
    assert result.tokens
    assert all(type(token) is int and token >= 0 for token in result.tokens)
    assert not most or len(result.tokens) <= most


@fuzzed
def test_served_probabilities(serve_all, data):
    engine, stub = serve_all("m")
    given = chat_likeliest({"A": -0.5, " B": -1.5, "C": -3.0})[1].encode()
    content = data.draw(damaged_json(given))
    stub.reply = lambda body, attempt: (200, content.decode("utf-8", "replace"))
    prompt = Text().ask("Which one?\nFinal Answer: ")
    with in_words():
        (row,) = engine.next_logprobs([prompt], [[ord(label) for label in "AB"]])
        assert isinstance(row, Failure) or (len(row) == 2 and all(p <= 0 for p in row))


@fuzzed
def test_a_player_s_answer(serve_all, monkeypatch, data):
    """The clinic's leaderboard takes a text, or refuses."""
    monkeypatch.setattr("clinic_env.v2.endpoint.WAIT", 0.0)
    _, stub = serve_all("m")
    content = data.draw(damaged_json(chat("Any fever?")[1].encode()))
    stub.reply = lambda body, attempt: (200, content.decode("utf-8", "replace"))
    with in_words(ValueError):
        (text,) = Endpoint(f"{stub.url}/v1", "m")([[{"role": "user", "content": "Hi"}]])
        assert isinstance(text, str)


@pytest.fixture
def serve_all(serve):
    """An engine of tokens or of chats before a stub whose reply a test changes."""
    stub = serve(lambda body, attempt: chat("x"))
    engines = {}

    def engine(model):
        if model not in engines:
            stub.served = {"id": "m"}
            engines[model] = stub.engine(attempts=1, **({"model": model} if model else {}))
        return engines[model], stub

    return engine
