"""What is cited is there: the paper's labels, modules that pages name, and one version of ours."""

import json
import re
import tomllib

import pytest
import yaml

from pcqc_base.system.checkout import ROOT

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


def test_project_citation_and_changelog_have_one_version():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"^## ([\d.]+)", changelog, re.MULTILINE)[0] == version == cited["version"]
    assert re.fullmatch(r"\d+\.\d+\.\d+", version)


def test_zenodo_is_told_what_the_citation_says():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    record = json.loads((ROOT / ".zenodo.json").read_text(encoding="utf-8"))
    names = ("title", "license")
    assert {name: record[name] for name in names} == {name: cited[name] for name in names}
    assert record["upload_type"] == cited["type"]
    assert [who["name"] for who in record["creators"]] == [who["name"] for who in cited["authors"]]
