"""Settings that README and docs show are accepted; the index names every page.

`make site` also checks links.
"""

import dataclasses
import re
import shutil

import pytest
import yaml
from docs_pages import blocks

from pcqc_base.system.checkout import ROOT
from pcqc_study.study_file import load_study

OF_METHODS = "add-a-method.md"  # has entries of config/methods.yaml
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
    monkeypatch.setattr("pcqc_study.study_file.load.ROOT", tmp_path)
    ((name, given),) = yaml.safe_load(text).items()
    for study in map(load_study, ("clinic", "paper")):
        model = study.method(given["like"])
        changes = {key: value for key, value in given.items() if key != "like"}
        assert study.method(name) == dataclasses.replace(model, **changes) != model


def test_the_index_and_the_contents_of_the_site_name_every_page():
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} - {"README.md"}
    assert pages <= set(re.findall(r"\]\(([\w-]+\.md)", index))
    contents = (ROOT / "docs" / "site" / "conf.py").read_text(encoding="utf-8")
    assert pages <= {f"{name}.md" for name in re.findall(r"\bdocs/([\w-]+)", contents)}
