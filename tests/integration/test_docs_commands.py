"""What README and docs tell a reader to type: commands, options, studies and files are there."""

import contextlib
import dataclasses
import importlib.util
import re
import shlex
import shutil
from pathlib import Path

import pytest
import yaml
from docs_pages import BLOCK, PAGES, blocks, typed

from pcqc.cli import _parser, main
from pcqc.study import ROOT, load_study

MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
WORKFLOW = [ROOT / "Snakefile", *ROOT.glob("workflow/rules/*.smk")]
RULES = "".join(path.read_text(encoding="utf-8") for path in WORKFLOW)
TARGETS = set(re.findall(r"^ *rule (\w+):", RULES, re.MULTILINE))
# Answered from settings alone, in an empty folder too.
AT_ONCE = re.compile(r"plan .*|status .*|data fetch|--help")


def commands() -> list[tuple[str, list[str]]]:
    """(page, words) of every command in a block without a language."""
    found = []
    for page, lines in typed():
        for line in lines:
            words = shlex.split(line)
            parts, here = [], []
            for word in [*words, "&&"]:
                if word in ("&&", "|", ";"):
                    parts, here = [*parts, here], []
                elif word not in (">", ">>"):
                    here.append(word.strip("[]"))
            found += [(page, part) for part in parts if part]
    return found


COMMANDS = commands()
# Less entries of config/methods.yaml, and what is another program's, such as a Kubernetes job.
OF_METHODS = "add-a-method.md"
SETTINGS = [
    (page, text) for page, text in blocks("yaml") if page != OF_METHODS and "apiVersion" not in text
]


def said(command: tuple[str, list[str]]) -> str:
    page, words = command
    return f"{page}: {' '.join(words)[:60]}"


def without_assignments(words: list[str]) -> list[str]:
    while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
        words = words[1:]
    return words


@pytest.mark.parametrize("command", COMMANDS, ids=said)
def test_a_command_of_the_docs_exists_with_its_options(command, monkeypatch):
    monkeypatch.chdir(ROOT)
    program, *words = without_assignments(command[1])
    check = {"pcqc": of_pcqc, "make": of_make, "snakemake": of_snakemake, "python": of_python}
    check.get(program, of_a_tool)(words, program)


def of_pcqc(words: list[str], _: str) -> None:
    if "--help" in words:
        return
    parsed = _parser().parse_args(words)
    # A study `large` is the reader's own.
    study = load_study(parsed.study) if getattr(parsed, "study", None) else None
    if study and getattr(parsed, "method", None):
        assert parsed.method in study.methods
        if isinstance(getattr(parsed, "run", None), str):
            assert parsed.run in study.method(parsed.method).runs


def of_make(words: list[str], _: str) -> None:
    variables = re.search(r"^VARIABLES := (.*)$", MAKEFILE, re.MULTILINE)[1].split()
    for word in words:
        name, given, value = word.partition("=")
        if given:
            assert name in variables
        else:
            assert re.search(rf"^{re.escape(word)}:", MAKEFILE, re.MULTILINE), word
        if name == "STUDY":
            load_study(value)


def of_snakemake(words: list[str], _: str) -> None:
    from snakemake.cli import get_argument_parser

    parsed = get_argument_parser().parse_args(words)
    given = dict(entry.split("=", 1) for entry in parsed.config or ())
    assert set(given) <= {"study", "data", "launcher"}
    name = given.get("study", "clinic")
    methods = {} if name == "large" else load_study(name).methods
    variation = {name for name in parsed.targets if name.startswith("pcqc_learning_rate")}
    assert set(parsed.targets) <= {*methods} | TARGETS | variation


def of_python(words: list[str], _: str) -> None:
    assert words[0] == "-m"
    assert importlib.util.find_spec(words[1]), words[1]


def of_a_tool(_: list[str], program: str) -> None:
    if not shutil.which(program):
        pytest.skip(f"{program} is not installed here")


@pytest.mark.parametrize(
    "words",
    [words for _, (_, *words) in COMMANDS if AT_ONCE.fullmatch(" ".join(words))],
    ids=" ".join,
)
def test_a_command_that_needs_no_results_runs(words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with contextlib.suppress(SystemExit) if "--help" in words else contextlib.nullcontext():
        assert main(words) == 0
    assert capsys.readouterr().out.strip()


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
    monkeypatch.setattr("pcqc.study.load.ROOT", tmp_path)
    ((name, given),) = yaml.safe_load(text).items()
    for study in map(load_study, ("clinic", "paper")):
        model = study.method(given["like"])
        changes = {key: value for key, value in given.items() if key != "like"}
        assert study.method(name) == dataclasses.replace(model, **changes) != model


def test_files_that_the_docs_link_to_are_there():
    for page in PAGES:
        text = BLOCK.sub("", page.read_text(encoding="utf-8"))
        for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text):
            if not link.startswith(("http", "mailto")):
                assert (page.parent / Path(link)).exists(), f"{page.name}: {link}"
