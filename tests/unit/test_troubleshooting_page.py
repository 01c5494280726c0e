"""`docs/troubleshooting.md` quotes messages that the code has."""

import ast
import re

import pytest

from pcqc_base.system.checkout import ROOT

PAGE = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
FRAGMENTS = [
    part.strip() for line in re.findall(r"^### `(.+)`$", PAGE, re.M) for part in line.split("…")
]


@pytest.fixture(scope="module")
def strings():
    files = [f for name in ("src", "analysis", "data_prep") for f in (ROOT / name).rglob("*.py")]
    nodes = [node for f in files for node in ast.walk(ast.parse(f.read_text(encoding="utf-8")))]
    texts = [n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    return [*texts, (ROOT / "Makefile").read_text(encoding="utf-8")]


@pytest.mark.parametrize("fragment", FRAGMENTS)
def test_a_message_of_the_page_is_one_of_the_codes(fragment, strings):
    assert any(fragment in text for text in strings)
