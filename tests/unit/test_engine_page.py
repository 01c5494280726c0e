"""The engine that docs/add-an-engine.md begins with does what every engine must."""

import pytest
from docs_pages import blocks
from engine_checks import CHECKS, make_model

pytestmark = pytest.mark.numerical
WHOLE, _ = [text for page, text in blocks("python") if page == "add-an-engine.md"]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_it_does_what_every_engine_must(check):
    names = {}
    exec(compile(WHOLE, "add-an-engine.md", "exec"), names)
    check(names["NewEngine"](make_model(0, tied=False)), make_model(0, tied=False))
