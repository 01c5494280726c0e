"""The miniature study, made once from nothing by the whole workflow."""

import fcntl
import os
import shutil

import pytest
from workplace import Workplace


def pytest_collection_modifyitems(items):
    """The longest tests come first, so that parallel workers end together."""
    items.sort(key=lambda item: item.path.parent.name != "workflow")


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
