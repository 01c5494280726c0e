"""What a wheel of `pcqc` gives without a checkout, beside the wheels of the packages it needs."""

import subprocess
import sys
import venv
from pathlib import Path

import pytest
from pythons import pythons

from pcqc_base.system.checkout import ROOT
from pcqc_study.graph import Jobs
from pcqc_study.study_file import load_study

pytestmark = pytest.mark.long  # wheels are built, an environment is made, a credit is scored
OWN, *OTHERS = PYTHONS = pythons((11, 12, 13))  # as pyproject.toml has them
VERSIONS = [OWN, *OTHERS[:1]]  # packages of gigabytes are fetched for another one
OURS = ("pcqc", "turn_credit", "clinic_env", "__editable__")
FINGERPRINTS = """
from pcqc_study.graph import Jobs
from pcqc_study.study_file import load_study
print(*(job.path.name for job in Jobs(load_study("clinic")).every()))
"""
CREDIT = """
from turn_credit import credit

@credit("Mine", "questions")
def mine(group):
    return group.read("utilities")
"""


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """The wheels of the three distributions, built from what git has."""
    folder = tmp_path_factory.mktemp("wheel")
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    for name in filter(None, files.stdout.decode().split("\0")):
        if name.split("/")[0] not in ("docs", "results", "tests") and (ROOT / name).is_file():
            copy = folder / "source" / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes((ROOT / name).read_bytes())
    sources = [folder / "source" / name for name in ("", "packages/turn_credit")]
    sources.append(folder / "source" / "packages" / "clinic_env")
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--wheel-dir", folder / "dist", *sources], check=True)
    return list((folder / "dist").glob("*.whl"))


@pytest.fixture(scope="module", params=VERSIONS)
def environment(request, wheels, tmp_path_factory):
    """An environment with the three wheels and the packages of the lock, but not our checkout."""
    folder = tmp_path_factory.mktemp("environment")
    if request.param == OWN:
        borrow_packages(folder)
    else:
        subprocess.run([PYTHONS[request.param], "-m", "venv", folder], check=True)
        lock = [folder / "bin" / "python", ROOT / "requirements" / "install.py"]
        done = subprocess.run(lock, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-3000:]
    install = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*install, "--python", folder / "bin" / "python", *wheels], check=True)
    return folder / "bin"


def borrow_packages(folder):
    """An environment of this Python that has, of what is installed here, all but our own."""
    venv.create(folder)
    site = next(folder.glob("lib/python*/site-packages"))
    for path in Path(pytest.__file__).parents[1].iterdir():
        if not path.name.startswith(OURS) and path.suffix != ".pth":
            (site / path.name).symlink_to(path)


@pytest.fixture
def run(environment, tmp_path, monkeypatch):
    """Runs a command of the environment in an empty folder; what it prints."""
    monkeypatch.delenv("PYTHONPATH", raising=False)

    def run(name, *arguments):
        command = [environment / name, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, input="\n")
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_the_commands_say_what_they_do(run):
    assert "Look at a study" in run("pcqc", "--help")
    assert "leaderboard" in run("creditbench", "--help")
    played = run("python", "-m", "clinic_env", "play", "--seed", "0")  # an empty line ends it
    assert "options" in played.lower()


def test_a_credit_of_ones_own_is_scored(run, tmp_path):
    (tmp_path / "mine.py").write_text(CREDIT)
    assert "| Mine |" in run("creditbench", "run", "mine.py")


def test_the_published_doctor_is_consulted_at_once(run):
    assert "The correct option is" in run("pcqc", "consult", "clinic-full", "shared_sft", "A")


def test_a_result_has_the_same_fingerprint_in_every_python(run):
    """What a study made with another one is finished here."""
    here = [job.path.name for job in Jobs(load_study("clinic")).every()]
    assert run("python", "-c", FINGERPRINTS).split() == here


def test_the_packages_are_distributions_of_their_own(run):
    """Otherwise who uninstalls `turn-credit` would take this one's copy away."""
    code = "from importlib.metadata import files; print(*files('pcqc'), sep='\\n')"
    names = {line.split("/")[0] for line in run("python", "-c", code).splitlines()}
    assert "pcqc_study" in names
    assert not {"turn_credit", "clinic_env", "analysis", "data_prep"} & names
