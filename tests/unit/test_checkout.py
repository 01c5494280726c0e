"""A result's commit is that of the code that made it, or unknown."""

import os
import shutil
import subprocess

import pytest

from pcqc_base.system import checkout

ME = ("-c", "user.name=me", "-c", "user.email=me@example.org")


@pytest.fixture
def commit(tmp_path, monkeypatch):
    """Makes a repository with some code in a folder; the commit."""
    # Not those of who runs the tests, in a hook for example.
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)

    def make(folder):
        (folder / "src").mkdir(parents=True)
        (folder / "src" / "code.py").write_text(f"# of {folder.name}\n")
        (folder / ".gitignore").write_text("/data/\n/results/*\n")
        git = ("git", "-C", str(folder))
        subprocess.run((*git, "init", "-q"), check=True)
        subprocess.run((*git, "add", "."), check=True)
        subprocess.run((*git, *ME, "commit", "-qm", "code"), check=True)
        return subprocess.run(
            (*git, "rev-parse", "HEAD"), check=True, capture_output=True, text=True
        ).stdout.strip()

    return make


@pytest.fixture
def recorded(tmp_path, monkeypatch):
    """What is recorded of code in a folder; by default the test's own."""

    def record(folder=tmp_path / "own"):
        monkeypatch.setattr(checkout, "ROOT", folder.resolve())
        return checkout.git_commit.__wrapped__()

    return record


def test_it_is_the_commit_of_the_checkout(commit, recorded, tmp_path):
    assert recorded() == "unknown"
    made = commit(tmp_path / "own")
    assert recorded() == made
    (tmp_path / "link").symlink_to(tmp_path / "own")
    assert recorded(tmp_path / "link") == made


def test_an_archive_inside_another_repository_has_no_commit(commit, recorded, tmp_path):
    commit(tmp_path / "other")
    unpacked = tmp_path / "other" / "vendor" / "pcqc"
    unpacked.mkdir(parents=True)
    assert recorded(unpacked) == "unknown"


def test_a_repository_that_the_environment_names_is_not_the_checkouts(
    commit, recorded, tmp_path, monkeypatch
):
    made, other = commit(tmp_path / "own"), commit(tmp_path / "other")
    assert made != other
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other" / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(tmp_path / "own"))
    assert recorded() == made


@pytest.mark.parametrize(
    ("file", "counts"),
    [
        ("src/code.py", True),
        ("src/new_method.py", True),
        ("mine/rules.smk", True),
        ("config/studies/mine.yaml", False),  # is in the manifest itself
        ("data/raw/fetched.py", False),
        ("results/mine/made.py", False),
    ],
)
def test_changed_code_and_new_code_count_as_changes(commit, recorded, tmp_path, file, counts):
    made = commit(tmp_path / "own")
    path = tmp_path / "own" / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("print('changed')\n")
    assert recorded() == (f"{made}+changes" if counts else made)


def test_a_checkout_of_another_user_is_unknown_and_a_line_says_why(
    commit, recorded, tmp_path, monkeypatch, capsys
):
    commit(tmp_path / "own")
    # Git's own switch for its tests, set where our call cannot clear it.
    wrapper = tmp_path / "bin" / "git"
    wrapper.parent.mkdir()
    wrapper.write_text(
        f'#!/bin/sh\nGIT_TEST_ASSUME_DIFFERENT_OWNER=1 exec {shutil.which("git")} "$@"\n'
    )
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", str(wrapper.parent), prepend=os.pathsep)
    assert recorded() == "unknown"
    (line,) = capsys.readouterr().err.splitlines()
    assert "belongs to another user; `git config --global --add safe.directory" in line
    # What the line says to do helps.
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "config"))
    remedy = line.split("`")[1].split()
    subprocess.run(remedy, check=True)
    assert recorded() != "unknown"
    assert not capsys.readouterr().err


def test_without_git_it_is_unknown(commit, recorded, tmp_path, monkeypatch):
    commit(tmp_path / "own")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert recorded() == "unknown"


def test_a_git_that_answers_nothing_readable_or_nothing_at_all_stops_no_job(
    commit, recorded, tmp_path, monkeypatch
):
    made = commit(tmp_path / "own")
    config = tmp_path / "config"
    config.write_text("[core]\n\tquotePath = false\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    (tmp_path / "own" / os.fsdecode(b"src/\xff.py")).touch()
    assert recorded() == f"{made}+changes"
    monkeypatch.setattr(checkout, "PATIENCE", 0.2)
    slow = tmp_path / "bin" / "git"
    slow.parent.mkdir()
    slow.write_text("#!/bin/sh\nexec sleep 30\n")
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", str(slow.parent), prepend=os.pathsep)
    assert recorded() == "unknown"
