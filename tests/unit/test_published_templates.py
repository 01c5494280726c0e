"""What docs/templates.md says of published chat templates; TRL carries them as they were published.

Their tokenizers are not here: a small one takes their place, with each template's own markers.
"""

import importlib.util
import re
from pathlib import Path

import pytest
from helpers import INSTRUCTION, make_case, make_tokenizer

from pcqc.cases.chat import ChatFormat
from pcqc_base.errors import UserError
from pcqc_base.system.checkout import ROOT

PAGE = (ROOT / "docs" / "templates.md").read_text(encoding="utf-8").split("## What was tried")[1]
ROWS = re.findall(r"^\| [^|]+ \| ((?:`\w+` ?)+)\| ([^|]+) \|$", PAGE, re.MULTILINE)
OUTCOMES = {name: outcome for files, outcome in ROWS for name in re.findall(r"\w+", files)}
MARKER = re.compile(r"<[^\s<>'\"{}+]+>|\[/?[A-Z_]+\]")
OPENED = "accepted; opens the doctor's thought"


def templates() -> dict[str, Path]:
    """Name -> file; TRL's own changed ones, for training, are left out."""
    trl = importlib.util.find_spec("trl")
    folder = Path(trl.submodule_search_locations[0], "chat_templates") if trl else ROOT / "no trl"
    return {p.stem: p for p in folder.glob("*.jinja") if not p.stem.endswith("_training")}


def tokenizer_of(name: str):
    if not templates():
        pytest.skip("trl is not installed")
    template = templates()[name].read_text(encoding="utf-8")
    tokenizer = make_tokenizer()
    own = {m for m in MARKER.findall(template) if "think>" not in m}
    tokenizer.add_tokens(sorted(own - {*tokenizer.get_vocab()}), special_tokens=True)
    tokenizer.add_special_tokens({"bos_token": "<s>"})
    tokenizer.chat_template = template
    return tokenizer


def test_the_page_names_every_template_once():
    if not templates():
        pytest.skip("trl is not installed")
    assert sorted(re.findall(r"\w+", " ".join(files for files, _ in ROWS))) == sorted(templates())


@pytest.mark.parametrize("name", [n for n, o in OUTCOMES.items() if not o.startswith("accepted")])
def test_a_template_is_refused_as_the_page_says(name):
    with pytest.raises(UserError, match=OUTCOMES[name]):
        ChatFormat(tokenizer_of(name), INSTRUCTION)


@pytest.mark.parametrize("name", [n for n, o in OUTCOMES.items() if o.startswith("accepted")])
def test_a_consultation_fits_as_the_page_says(name):
    """Every turn stands once, and only the doctor's prompt may end in an open thought."""
    chat = ChatFormat(tokenizer_of(name), INSTRUCTION)
    told = ["<think>a</think>Question: any cough?", "No cough.", "Final Answer: B"]
    roles = ("system", "user", "assistant", "user", "assistant")
    texts = (INSTRUCTION, "Fever.", *told)
    messages = [{"role": r, "content": t} for r, t in zip(roles, texts, strict=True)]
    (_, _), (state, response) = chat.turns(messages, "keep")
    whole = chat.tokenizer.decode([*state, *response])
    assert [whole.count(t) for t in (INSTRUCTION, "Fever.", "any cough?", *told[1:])] == [1] * 5
    opened = "<think>" in whole.rpartition("No cough.")[2]
    assert opened == (OUTCOMES[name] == OPENED)
    assert chat.tokenizer.decode(chat.ask("Fever.")).count("<think>") in (0, 1)
    opening = chat.tokenizer.decode(chat.open(make_case().public))
    assert opening.count(INSTRUCTION) == 1
