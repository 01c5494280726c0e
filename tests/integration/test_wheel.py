"""What a wheel of `pcqc` gives without a checkout, beside the wheels of the packages it needs."""

import subprocess
import sys
import venv
from pathlib import Path

import pytest

from pcqc_base.system.checkout import ROOT

pytestmark = pytest.mark.long  # wheels are built, an environment is made, a credit is scored
OURS = ("pcqc", "turn_credit", "clinic_env", "__editable__")
CREDIT = """
from turn_credit import credit

@credit("Mine", "questions")
def mine(group):
    return group.read("utilities")
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """An environment with the three wheels and, of what is installed here, all but our own."""
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
    venv.create(folder / "env")
    site = next(folder.glob("env/lib/python*/site-packages"))
    for path in Path(pytest.__file__).parents[1].iterdir():
        if not path.name.startswith(OURS) and path.suffix != ".pth":
            (site / path.name).symlink_to(path)
    python = folder / "env" / "bin" / "python"
    install = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    wheels = (folder / "dist").glob("*.whl")
    subprocess.run([*install, "--python", python, *wheels], check=True)
    return python.parent


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


def test_the_packages_are_distributions_of_their_own(run):
    """Otherwise who uninstalls `turn-credit` would take this one's copy away."""
    code = "from importlib.metadata import files; print(*files('pcqc'), sep='\\n')"
    names = {line.split("/")[0] for line in run("python", "-c", code).splitlines()}
    assert "pcqc_study" in names
    assert not {"turn_credit", "clinic_env", "analysis", "data_prep"} & names
