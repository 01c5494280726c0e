"""What SECURITY.md promises of a stranger's study and model folder: neither runs by being read."""

import json
from pathlib import Path

import pytest
from helpers import make_tokenizer, tiny_model

from pcqc.cases.chat import ChatFormat
from pcqc.models.folder import load_model, load_tokenizer, save_model
from pcqc_base.errors import UserError
from pcqc_study.cli import main

RUNS = "from pathlib import Path\nPath('ran').touch()\n"
STUDY = """
like: clinic
title: Theirs
methods:
  theirs: {title: Theirs, method: credited_turns, role: peer, runs: [A], terminal_group: 2,
    updates: 2, turn_credit: gigpo, file: theirs.py}
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty working directory with a file that says whether it was run."""
    monkeypatch.chdir(tmp_path)
    Path("theirs.py").write_text(RUNS)
    return tmp_path


def test_a_study_can_be_looked_at_before_its_files_run(here, capsys):
    """`pcqc check` alone; what works with a study runs the credit that it names."""
    Path("theirs.yaml").write_text(STUDY)
    assert main(["check", "theirs.yaml"]) == 0
    assert json.loads(capsys.readouterr().out)["methods"]["theirs"]["file"] == "theirs.py"
    assert sorted(path.name for path in here.iterdir()) == ["theirs.py", "theirs.yaml"]
    assert main(["status", "theirs.yaml"]) == 2
    assert "theirs.py: it defines no credit" in capsys.readouterr().err
    assert Path("ran").exists()


def test_code_beside_weights_is_not_run(here):
    folder = here / "model"
    save_model(folder, tiny_model(vocabulary=len(make_tokenizer())), make_tokenizer())
    (folder / "own.py").write_text(RUNS)
    for name, classes in {
        "config.json": {"AutoModelForCausalLM": "own.Model", "AutoConfig": "own.Config"},
        "tokenizer_config.json": {"AutoTokenizer": ["own.Tokenizer", None]},
    }.items():
        settings = json.loads((folder / name).read_text())
        (folder / name).write_text(json.dumps(settings | {"auto_map": classes}))
    with pytest.raises(UserError, match=r"config\.json: corrupted"):
        load_model(folder)
    (folder / "manifest.json").write_text('{"files": {}}')  # a folder that says nothing of itself
    assert type(load_model(folder)).__name__ == "Qwen3ForCausalLM"
    assert load_tokenizer(folder).encode("a")
    assert not Path("ran").exists()


@pytest.mark.parametrize(
    "content", ["{", "\x1b[2J", "{}", '{"model": {"type": "None"}}', "[]", "\x00"]
)
def test_a_broken_tokenizer_is_one_line(here, content):
    make_tokenizer().save_pretrained("model")
    Path("model", "tokenizer.json").write_text(content)
    with pytest.raises(UserError, match="model: transformers cannot read its tok") as refused:
        load_tokenizer(Path("model"))
    assert str(refused.value).isprintable()


@pytest.mark.parametrize(
    "template",
    [
        "{{ cycler.__init__.__globals__.os.system('touch ran') }}",
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{% include '/etc/hostname' %}",
        "{% for i in range(1000000000) %}x{% endfor %}",
        "{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}",
        "{% for x in",
    ],
)
def test_a_chat_template_reaches_no_code_and_no_file(here, template):
    tokenizer = make_tokenizer()
    tokenizer.chat_template = template
    with pytest.raises(UserError, match="chat template") as refused:
        ChatFormat(tokenizer, "Ask or answer.")
    assert "\n" not in str(refused.value)
    assert not Path("ran").exists()
