"""What README and docs show a reader: settings are accepted, and linked files are there."""

import dataclasses
import re
import runpy
import shutil
from pathlib import Path

import pytest
import yaml
from docs_pages import BLOCK, blocks

from pcqc.system.checkout import ROOT
from pcqc_study.settings import load_study

OF_METHODS = "add-a-method.md"  # has entries of config/methods.yaml
SITE = runpy.run_path(str(ROOT / "docs" / "site" / "conf.py"))
FOLDERS = ("benchmarks", "docs", "models", "packages", "results/archive", "src")
WRITTEN = [*ROOT.glob("*.md"), ROOT / "results" / "README.md"]
WRITTEN += [page for name in FOLDERS for page in (ROOT / name).rglob("*.md")]
ON_SITE = [
    page for page in WRITTEN if page.relative_to(ROOT).as_posix() not in SITE["exclude_patterns"]
]
SETTINGS = [(page, text) for page, text in blocks("yaml") if page != OF_METHODS]


@pytest.mark.parametrize(("page", "text"), SETTINGS, ids=[page for page, _ in SETTINGS])
def test_settings_of_the_docs_are_accepted_by_a_study(page, text, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    given = yaml.safe_load(text)
    # Only a study with a placement has something to place.
    name = "real" if {"placement", "assumptions"} & set(given) else "real-smoke"
    base = yaml.safe_load((ROOT / f"config/studies/{name}.yaml").read_text(encoding="utf-8"))
    if page == "add-a-benchmark.md":
        given = {"benchmarks": base["benchmarks"] | given}
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(base | given), encoding="utf-8")
    study = load_study(str(path))
    assert all(getattr(study, name) for name in given)


def test_the_method_of_the_docs_is_its_model_but_for_what_it_names(tmp_path, monkeypatch):
    (text,) = [text for page, text in blocks("yaml") if page == OF_METHODS and "like" in text]
    shutil.copytree(ROOT / "config", tmp_path / "config")
    with open(tmp_path / "config" / "methods.yaml", "a", encoding="utf-8") as entries:
        entries.write(f"\n{text}")
    monkeypatch.setattr("pcqc_study.settings.load.ROOT", tmp_path)
    ((name, given),) = yaml.safe_load(text).items()
    for study in map(load_study, ("clinic", "paper")):
        model = study.method(given["like"])
        changes = {key: value for key, value in given.items() if key != "like"}
        assert study.method(name) == dataclasses.replace(model, **changes) != model


def test_what_the_docs_link_to_is_there():
    for page in ON_SITE:
        text = BLOCK.sub("", page.read_text(encoding="utf-8"))
        for link in re.findall(r"\]\(([^)]+)\)", text):
            if link.startswith(("http", "mailto")):
                continue
            file, _, heading = link.partition("#")
            target = page.parent / file if file else page
            assert target.is_file(), f"{page.name}: {link}"  # the site has no folders
            assert not heading or heading in anchors(target), f"{page.name}: {link}"


def anchors(page: Path) -> list[str]:
    """Names by which links reach the headings of a page, as its host makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings]


def test_the_index_names_every_page():
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} - {"README.md"}
    assert pages <= set(re.findall(r"\]\(([\w-]+\.md)", index))


def test_the_sites_contents_name_every_page():
    named = " ".join(SITE["contents"].values()).split()
    pages = {page.relative_to(ROOT).with_suffix("").as_posix() for page in ON_SITE}
    assert sorted(named) == sorted(pages - {SITE["root_doc"]})
