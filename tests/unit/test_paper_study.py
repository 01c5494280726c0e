"""config/studies/paper.yaml against the paper's values, and these against its text."""

import re
from pathlib import Path

import pytest
import yaml

from pcqc.cases.order import batches_per_pass
from pcqc.methods.sequences import QUESTION
from pcqc_study.study_file import Study, load_study

FIXTURE = Path(__file__).parents[1] / "fixtures" / "paper_settings.yaml"
SETTINGS = yaml.safe_load(FIXTURE.read_text())
WORDS = {"one": 1, "three": 3, "four": 4, "eight": 8, "bf16": "bfloat16"}


@pytest.fixture(scope="module")
def study() -> Study:
    return load_study("paper")


@pytest.fixture(scope="module")
def text(paper_source) -> str:
    """The paper's source on one line, thousands set as `1,024`."""
    return re.sub(r"\s+", " ", paper_source).replace("{,}", ",")


def value_of(settings, path: str):
    """The setting at a path like `methods.pcqc.beta`."""
    if path.endswith(".beta"):  # a method without question credit has no such setting
        return settings.method(path.split(".")[1]).coefficients.get(QUESTION, 0.0)
    for name in path.split("."):
        settings = settings[name] if isinstance(settings, dict) else getattr(settings, name)
    return settings


def read(text: str):
    """A value as the paper writes it: `14,256`, `10^{-5}`, `four`, `Qwen3-8B`."""
    if power := re.fullmatch(r"10\^\{(-?\d+)\}", text):
        return float(f"1e{power.group(1)}")
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return WORDS.get(text.lower(), text)


@pytest.mark.parametrize("entry", SETTINGS, ids=lambda entry: entry["setting"])
def test_the_study_has_the_papers_setting(study, entry):
    assert value_of(study, entry["setting"]) == entry["value"], entry["source"]


@pytest.mark.parametrize("entry", SETTINGS, ids=lambda entry: entry["setting"])
def test_the_paper_says_so(text, entry):
    values = {read(match.group(1)) for match in re.finditer(entry["pattern"], text)}
    expected = entry["value"]
    if isinstance(expected, str):
        expected = expected.removeprefix("Qwen/")
    assert values == {expected}, entry["source"]


def test_methods_are_the_papers_with_three_runs_each(study):
    """tab:main_results and the ablations; three runs of each, where the paper has one control."""
    methods = {name: m for name, m in study.methods.items() if m.runs and not m.on_demand}
    runs = {name: len(method.runs) for name, method in methods.items()}
    controls = {"terminal_only": 3, "executed_local": 3, "same_state_q1": 3}
    assert runs == {"shared_sft": 1, "grpo": 3, "atpo": 3, "pcqc": 3, **controls}


def test_trajectories_are_the_papers(text, study):
    """tab:compute_performance: complete consultations of PCQC and of GRPO."""
    theirs = re.search(r"trajectories: ([\d,]+) versus ([\d,]+)", text).groups()
    methods = (study.method(name) for name in ("pcqc", "grpo"))
    ours = [m.updates * study.rl_of(m).cases_per_update * m.terminal_group for m in methods]
    assert ours == [read(number) for number in theirs] == [113_664, 204_800]


def test_updates_are_two_passes_over_the_cases(study):
    """Which is why ATPO, whose number of updates is not reported, has as many as PCQC."""
    passes = 2 * batches_per_pass(study.data.training_cases, study.rl.cases_per_update)
    assert study.methods["pcqc"].updates == passes == 222
    assert study.methods["atpo"].updates == study.methods["pcqc"].updates
