"""`pcqc push`: a checkpoint and its card in a repository of a hub, which a stub stands for."""

import base64
import hashlib
import json
import threading
from contextlib import chdir
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import torch
import yaml
from hand_made import finish_job, folder_of
from helpers import free_port, make_tokenizer, tiny_model
from run_folders import make_study, write_study
from transformers import AutoModelForCausalLM, AutoTokenizer

from pcqc.models.folder import save_model
from pcqc_base.errors import UserError
from pcqc_base.system.manifest import read_manifest
from pcqc_study import push
from pcqc_study.cli import main
from pcqc_study.mlflow_mirror.finished import FinishedRun
from pcqc_study.runs import load
from pcqc_study.study_file import load_study

TOKEN = "hf_t0kenOfTheTest"


class Hub(ThreadingHTTPServer):
    """As much of Hugging Face's hub as an upload asks for, on the loopback, at one repository."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Asked)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.made: dict = {}  # what was asked of the repository when it was created
        self.files: dict[str, bytes] = {}
        self.uploads: dict[str, bytes] = {}  # SHA-256 -> content of a large file
        self.commits: list[str] = []
        self.keys: set = set()
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    def oid(self, name: str) -> str | None:
        """What the hub knows a file by: large ones by SHA-256, others as git does."""
        if (content := self.files.get(name)) is None:
            return None
        if name.endswith(".safetensors"):
            return hashlib.sha256(content).hexdigest()
        return hashlib.sha1(b"blob %d\0%b" % (len(content), content)).hexdigest()

    def commit(self, body: bytes) -> dict:
        """Take a commit's lines: small files are in it, large ones were put before."""
        for line in map(json.loads, body.splitlines()):
            value = line["value"]
            if line["key"] == "header":
                self.commits.append(value["summary"])
            elif line["key"] == "file":
                self.files[value["path"]] = base64.b64decode(value["content"])
            else:
                self.files[value["path"]] = self.uploads[value["oid"]]
        url = f"{self.url}/me/doctor/commit/{len(self.commits)}"
        return {"commitUrl": url, "commitOid": str(len(self.commits)), "pullRequestUrl": None}


class Asked(BaseHTTPRequestHandler):
    """Answers one request to the hub."""

    server: Hub

    def do_GET(self):
        self.answer({"id": "me/doctor", "sha": "1"})

    def do_PUT(self):
        self.server.uploads[self.path.rpartition("/")[2]] = self.body()
        self.answer({})

    def do_POST(self):
        hub, body = self.server, self.body()
        hub.keys.add(self.headers["Authorization"])
        if self.headers["Authorization"] != f"Bearer {TOKEN}":
            return self.answer({"error": "Invalid username or password."}, 401)
        if self.path.startswith("/api/models/me/doctor/commit/"):
            return self.answer(hub.commit(body))
        asked = json.loads(body)
        if self.path == "/api/repos/create":
            status = 409 if hub.made else 200
            hub.made = hub.made or asked
            return self.answer({"url": f"{hub.url}/me/doctor"}, status)
        if self.path == "/api/validate-yaml":
            header = yaml.safe_load(asked["content"].split("---\n")[1])
            assert isinstance(header["tags"], list)
            return self.answer({"errors": [], "warnings": []})
        if self.path.startswith("/api/models/me/doctor/preupload/"):
            names = [file["path"] for file in asked["files"]]
            files = [
                {
                    "path": name,
                    "uploadMode": "lfs" if name.endswith(".safetensors") else "regular",
                    "shouldIgnore": False,
                    "oid": hub.oid(name),
                }
                for name in names
            ]
            return self.answer({"files": files})
        assert self.path == "/me/doctor.git/info/lfs/objects/batch"
        objects = [
            {**o, "actions": {"upload": {"href": f"{hub.url}/put/{o['oid']}"}}}
            for o in asked["objects"]
        ]
        self.answer({"transfer": "basic", "objects": objects})

    def body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def answer(self, reply, status=200):
        content = json.dumps(reply).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


@pytest.fixture
def hub(monkeypatch):
    hub = Hub()
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", hub.url)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_XET", True)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    yield hub
    hub.shutdown()
    hub.server_close()


@pytest.fixture
def study(tmp_path, monkeypatch):
    """A study with a run of PCQC that has its selected weights, and one of GRPO that has not."""
    monkeypatch.chdir(tmp_path)
    study = make_study()
    write_study(study, ["pcqc", "grpo"], "A")
    tokenizer, folder = make_tokenizer(), weights_of(study)
    save_model(folder, tiny_model(0, len(tokenizer)), tokenizer)
    kept = read_manifest(folder.parents[1])
    entries = {name: kept[name] for name in ("git_commit", "machine", "updates", "totals")}
    times = {name: kept[name] for name in ("begun", "finished")}
    finish_job(study, "train", "pcqc", "A", entries=entries | times)
    return study


def weights_of(study) -> Path:
    return folder_of(study, "train", "pcqc", "A") / "checkpoints" / "000004"


def test_what_is_pushed_loads_and_its_card_says_what_it_is(study, hub, tmp_path, capfd, caplog):
    address = push.push(study, "pcqc", "A", "me/doctor")
    assert address == f"{hub.url}/me/doctor/commit/1"
    assert hub.commits == ["PCQC, run A"]
    assert (hub.made["name"], hub.made["organization"], hub.made["visibility"]) == (
        "doctor",
        "me",
        "private",
    )
    weights = weights_of(study)
    own = {path.name: path.read_bytes() for path in weights.iterdir()}
    assert {n: content for n, content in hub.files.items() if n != "README.md"} == own

    folder = tmp_path / "downloaded"
    folder.mkdir()
    for name, content in hub.files.items():
        (folder / name).write_bytes(content)
    tokens = torch.tensor([[1, 2, 3]])
    ours, pushed = (AutoModelForCausalLM.from_pretrained(p)(tokens) for p in (weights, folder))
    assert torch.equal(ours.logits, pushed.logits)
    assert len(AutoTokenizer.from_pretrained(folder)) == len(AutoTokenizer.from_pretrained(weights))

    _, header, card = hub.files["README.md"].decode().split("---\n", 2)
    assert yaml.safe_load(header) == {
        "library_name": "transformers",
        "license": "apache-2.0",
        "pipeline_tag": "text-generation",
        "tags": ["pcqc", "reinforcement-learning"],
    }
    assert "# PCQC, run A, of " in card
    assert "| Clinic-Dev | 66.7 % | 1.0 |" in card
    assert "commit `0123456789abcdef0123456789abcdef01234567`" in card
    assert "The clinic is synthetic" in card
    assert "not for medical" in card

    # A second time nothing is new.
    push.push(study, "pcqc", "A", "me/doctor")
    assert len(hub.commits) == 1
    assert hub.keys == {f"Bearer {TOKEN}"}
    printed = "".join(capfd.readouterr()) + caplog.text
    assert TOKEN not in printed
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or TOKEN.encode() not in path.read_bytes(), path


def test_a_card_of_published_weights_names_them_and_no_licence(study):
    """Their licence is their makers' affair."""
    models = load_study("paper").models
    assert models.actor.revision
    folders = load(study.results, "pcqc", "A").folders
    run = FinishedRun(study.results, "pcqc", "A", folders, replace(study, models=models))
    header = yaml.safe_load(push.card(run, "me/doctor").split("---\n")[1])
    assert header["base_model"] == models.actor.source
    assert "license" not in header


def test_a_repository_is_public_where_that_is_asked_for(study, hub):
    push.push(study, "pcqc", "A", "me/doctor", public=True)
    assert hub.made["visibility"] == "public"


def refused(study, *run):
    with pytest.raises(UserError) as caught:
        push.push(study, *run)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_what_cannot_be_pushed_is_one_line_with_its_remedy(study, hub, monkeypatch, capfd):
    line = refused(study, "grpo", "A", "me/doctor")
    assert line == (
        "clinic/grpo/A: its weights are not here; `pcqc train clinic grpo A` makes them again"
    )
    assert "name" in refused(study, "pcqc", "A", "me/../doctor")
    monkeypatch.setenv("HF_TOKEN", "hf_wr0ng")
    line = refused(study, "pcqc", "A", "me/doctor")
    assert line.startswith("me/doctor was not pushed: ")
    assert line.endswith("; check name, token and network, then push again")
    assert "hf_wr0ng" not in line
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", f"http://127.0.0.1:{free_port()}")
    assert "was not pushed" in refused(study, "pcqc", "A", "me/doctor")
    weights = weights_of(study) / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    assert "model.safetensors" in refused(study, "pcqc", "A", "me/doctor")
    assert hub.files == {}
    monkeypatch.delenv("HF_TOKEN")
    with chdir(Path(__file__).parents[2]):
        assert main(["push", "clinic", "pcqc", "A", "me/doctor"]) == 2
    assert "HF_TOKEN is not set; give it a token" in capfd.readouterr().err
