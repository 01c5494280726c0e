"""Fixtures of all tests, what `tests/long` and ../shared mean, and the line on what was not run."""

import fcntl
import os
import shutil
from pathlib import Path

import pytest
import torch
from helpers import INSTRUCTION, make_tokenizer, tiny_model
from workplace import Workplace

from pcqc.cases.chat import ChatFormat

TESTS = Path(__file__).parent
SHARED = TESTS.parents[1] / "shared"  # the paper's source and the published cases, beside the clone

torch.set_num_threads(1)


def pytest_collection_modifyitems(items):
    """Marks by folder and by fixture; the slowest come first, so that workers end together."""
    for item in items:
        if TESTS / "long" in item.path.parents:
            item.add_marker("long")
        if "shared_file" in item.fixturenames:
            item.add_marker("needs_shared")
        if {"torch", "plain_logprobs"} & set(vars(item.module)):
            item.add_marker("numerical")
    items.sort(key=lambda item: item.path.parent.name != "workflow")


def pytest_terminal_summary(terminalreporter):
    skipped = terminalreporter.stats.get("skipped", [])
    number = sum("needs_shared" in report.keywords for report in skipped)
    if number:
        terminalreporter.write_line(
            f"{number} tests were skipped because they need files of {SHARED}, the paper's source "
            "or published cases; `pytest -m needs_shared --collect-only -q` lists them."
        )


@pytest.fixture(scope="session")
def shared_file():
    """Finds a file of ../shared by its path there; where it is missing the test is skipped."""

    def find(name: str) -> Path:
        if not (SHARED / name).is_file():
            pytest.skip(f"{name} is not at ../shared")
        return SHARED / name

    return find


@pytest.fixture(scope="session")
def published(shared_file):
    """Finds a published file of cases by its name."""
    return lambda name: shared_file(f"data/{name}")


@pytest.fixture(scope="session")
def paper_source(shared_file):
    """The paper's LaTeX source."""
    return shared_file("paper/pcqc.tex").read_text()


@pytest.fixture(scope="session")
def fixtures():
    """Folder of hand-written rows of every published format."""
    return TESTS / "fixtures" / "data"


@pytest.fixture(scope="session")
def tokenizer():
    return make_tokenizer()


@pytest.fixture(scope="session")
def chat(tokenizer):
    return ChatFormat(tokenizer, INSTRUCTION)


@pytest.fixture(scope="session")
def model():
    """A tiny random model; tests that train make one of their own."""
    return tiny_model()


@pytest.fixture(scope="session")
def mini(tmp_path_factory):
    """The finished miniature study, shared by all workers; tests read it, and change copies."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    folder, said = shared / "mini", shared / "mini.said"
    with open(shared / "mini.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not said.exists():
            shutil.rmtree(folder, ignore_errors=True)
            said.write_text(Workplace(folder).make())
    return Workplace.existing(folder)


@pytest.fixture(scope="session")
def said(mini):
    """What the workflow said while it made the miniature study."""
    return mini.folder.with_name("mini.said").read_text()


@pytest.fixture
def copy(mini, tmp_path):
    """A copy of the finished study with its code, for one test to spoil."""
    return mini.copied(tmp_path / "copy")
