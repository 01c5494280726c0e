"""Fixtures of all tests, what `tests/long` and ../shared mean, and the line on what was not run."""

import atexit
import gc
import os
import shutil
from contextlib import chdir
from pathlib import Path

import pytest
from once import once
from workplace import Workplace

TESTS = Path(__file__).parent
SHARED = TESTS.parents[1] / "shared"  # the paper's source and the published cases, beside the clone
# They import vLLM or TRL, which takes seconds: side by side, so that one worker does it for all.
HEAVY = ("test_vllm", "test_gpu_path", "test_benchmarks", "test_gpu_benchmarks", "test_trl_trainer")
# Fixtures whose tests are slow: DeepSpeed's processes, vLLM's engines, SmolLM2 from its package.
SLOW = {"launched", "engines", "smollm2_folder"}

gc.disable()  # until all modules are imported: it would walk what is loaded again and again
if "PYTEST_XDIST_WORKER" in os.environ:  # it has told all, and to tear torch down takes seconds
    atexit.register(os._exit, 0)


def pytest_collection_modifyitems(items):
    """Marks by folder and by fixture; the slowest come first, so that workers end together."""
    import torch  # not above: with `-n` there is a process that collects no test

    torch.set_num_threads(1)
    for item in items:
        if TESTS / "long" in item.path.parents:
            item.add_marker("long")
        if SLOW & set(item.fixturenames) and not item.get_closest_marker("long"):
            item.add_marker("slow")
        if "shared_file" in item.fixturenames:
            item.add_marker("needs_shared")
        if {"torch", "plain_logprobs"} & set(vars(item.module)):
            item.add_marker("numerical")
    items.sort(key=lambda item: (item.path.parent.name != "workflow", item.path.stem not in HEAVY))


def pytest_collection_finish():
    gc.freeze()
    gc.enable()


def pytest_sessionfinish():
    gc.freeze()  # pytest collects once more, and what tests left behind is much


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
    from helpers import make_tokenizer

    return make_tokenizer()


@pytest.fixture(scope="session")
def chat(tokenizer):
    from helpers import INSTRUCTION

    from pcqc.cases.chat import ChatFormat

    return ChatFormat(tokenizer, INSTRUCTION)


@pytest.fixture(scope="session")
def model():
    """A tiny random model; tests that train make one of their own."""
    from helpers import tiny_model

    return tiny_model()


@pytest.fixture(scope="session")
def mini(tmp_path_factory):
    """The finished miniature study; tests read it, and change copies."""
    return Workplace.existing(
        once(tmp_path_factory, "mini", lambda folder: Workplace(folder).make())
    )


@pytest.fixture(scope="session")
def printed(mini):
    """What the workflow printed while it made the miniature study."""
    return mini.folder.with_name("mini.made").read_text()


@pytest.fixture(scope="session")
def draw_clinic(tmp_path_factory):
    """Puts a study's cases into the working directory; a study's are drawn once in a test run."""
    from hand_made import make_cases

    from pcqc_study.run_job import run_job

    def draw(study):
        def make(folder):
            folder.mkdir()
            with chdir(folder):
                run_job(study, "base")
                make_cases(study)

        drawn = once(tmp_path_factory, f"cases of {study.name}", make)
        shutil.copytree(drawn, Path.cwd(), symlinks=True, dirs_exist_ok=True)

    return draw


@pytest.fixture(scope="session")
def simulated_study(tmp_path_factory):
    """Folder with `results/simulated/`, what the simulated study collected; tests read it."""
    import simulated

    def make(root):
        root.mkdir()
        simulated.write_study(root)

    return once(tmp_path_factory, "simulated", make)


@pytest.fixture(scope="session")
def reported(tmp_path_factory, simulated_study):
    """Folder with tables, figures (svg) and report of the simulated study; tests read it."""
    import simulated
    from helpers import SECRET_ADDRESS

    from analysis import figures, report, tables
    from analysis.load import load
    from analysis.tables_and_figures import FORMS

    def make(root):
        shutil.copytree(simulated_study, root, symlinks=True)
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(root)
            patch.setenv("MLFLOW_TRACKING_URI", SECRET_ADDRESS)
            patch.setitem(FORMS, "figure", ("svg",))  # the one that the report shows
            collected = load(simulated.load_study(simulated.STUDY))
            for written in (tables, figures):
                written.write(collected, root)
            report.write(collected, root)

    return once(tmp_path_factory, "reported", make)


@pytest.fixture
def copy(mini, tmp_path):
    """A copy of the finished study with its code, for one test to spoil."""
    return mini.copied(tmp_path / "copy")
