"""A method of another distribution, as docs/add-a-method.md has it, is found by its entry point."""

import re
import sys

import numpy as np
import pytest
from small_runs import small_study

from pcqc_base.errors import UserError
from pcqc_base.settings.every_method import method_module
from pcqc_base.system.checkout import ROOT
from pcqc_base.system.files import read_jsonl
from pcqc_base.system.manifest import read_manifest
from pcqc_study.graph import Jobs
from pcqc_study.run_job import run_job
from pcqc_study.study_file import load_study

PAGE = (ROOT / "docs" / "add-a-method.md").read_text()
CODE, ENTRY_POINT, ENTRY = (
    re.search(rf"```{start}.*?)```", PAGE, re.S)[1]
    for start in (r"python\n(", r"toml\n(", r"yaml\n(methods:")
)


@pytest.fixture(autouse=True)
def installed(tmp_path_factory, monkeypatch):
    """The page's distribution, on Python's path as an installed one is."""
    folder = tmp_path_factory.mktemp("site-packages")
    (folder / "dr_grpo.py").write_text(CODE)
    about = folder / "dr_grpo-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: dr_grpo\nVersion: 1.0\n")
    name, value = re.search(r'(\w+) = "(.*)"', ENTRY_POINT).groups()
    (about / "entry_points.txt").write_text(f"[pcqc.methods]\n{name} = {value}\n")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "dr_grpo", raising=False)


def make_study(folder):
    (folder / "small.yaml").unlink(missing_ok=True)
    small_study(folder)
    path = folder / "small.yaml"
    path.write_text(path.read_text().replace("methods:\n", ENTRY.replace("222", "2")))
    return load_study(path)


def test_it_trains_on_what_it_credits(study):
    folder = run_job(study, "train", "dr_grpo", "A").path
    assert len(list((folder / "checkpoints").iterdir())) == 1
    rows = [row for _, row in read_jsonl(folder / "consultations.jsonl")]
    half = study.method("dr_grpo").scale / 2
    assert {row["update"] for row in rows} == {1, 2}
    assert all(np.abs(row["advantage"]) in (0.0, half) for row in rows)
    assert read_manifest(folder)["fingerprint"]["settings"]["method"]["scale"] == 2.0


def test_its_settings_are_checked_and_its_module_counts(study, tmp_path):
    assert method_module("dr_grpo") == "dr_grpo"
    modules = Jobs(study).job("train", "dr_grpo", "A").fingerprint.modules
    assert "dr_grpo" in modules
    assert "pcqc.methods.pcqc" not in modules
    path = tmp_path / "small.yaml"
    path.write_text(path.read_text().replace("scale:", "scael:"))
    with pytest.raises(UserError, match=r"small.yaml:\d+: methods.dr_grpo.scael: unknown"):
        load_study(path)
