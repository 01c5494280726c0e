"""What is cited is there: the paper's labels, and the modules that the glossary names."""

import re

import pytest

from pcqc.study import ROOT

LABEL = re.compile(r"\b(?:eq|app|tab|sec|fig):[a-z0-9_]+(?::[a-z0-9_]+)*")
FOLDERS = ("src", "packages", "analysis", "data_prep", "docs", "config", "workflow", "tests/unit")
ENDINGS = {".py", ".md", ".yaml", ".smk", ".j2"}


def test_every_label_cited_is_one_of_the_papers(paper_source):
    labels = set(re.findall(r"\\label\{([^}]+)\}", paper_source))
    files = [f for folder in FOLDERS for f in (ROOT / folder).rglob("*") if f.suffix in ENDINGS]
    cited = {
        (label, str(file.relative_to(ROOT)))
        for file in files
        for label in LABEL.findall(file.read_text(encoding="utf-8"))
    }
    assert len(cited) > 80
    assert [place for place in sorted(cited) if place[0] not in labels] == []


@pytest.mark.parametrize("page", ["glossary.md", "architecture.md"])
def test_every_file_of_a_page_is_there(page):
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    places = re.findall(r"`((?:src|analysis|config|workflow)/[\w./*]*)`", text)
    assert len(places) > 10
    assert [place for place in places if not list(ROOT.glob(place))] == []
