"""`docs/equations.md`: its functions and tests exist, and every equation of the paper is there."""

import ast
import re

import pytest

from pcqc_base.system.checkout import ROOT

PAGE = (ROOT / "docs" / "equations.md").read_text(encoding="utf-8")
ROWS = [line for line in PAGE.splitlines() if line.startswith("| `")]
PLACES = re.findall(r"`([\w/]+\.py)` `(\w+)`", PAGE)


def test_every_row_names_a_function_and_a_test():
    assert len(ROWS) > 20
    assert all(len(re.findall(r"\.py` `", row)) == 2 for row in ROWS)


@pytest.mark.parametrize(("file", "name"), sorted(set(PLACES)))
def test_a_function_or_test_of_the_page_exists(file, name):
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    assert name in {node.name for node in ast.walk(tree) if hasattr(node, "name")}


def test_every_numbered_equation_of_the_paper_is_on_the_page(paper_source):
    equations = set(re.findall(r"\\label\{(eq:\w+)\}", paper_source))
    assert set(re.findall(r"`(eq:\w+)`", PAGE)) == equations
