"""Hand-written rows of every format, and the published files where this machine has them."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "tests" / "fixtures" / "data"
PUBLISHED = ROOT.parent / "shared" / "data"


@pytest.fixture(scope="session")
def fixtures():
    return FIXTURES


@pytest.fixture(scope="session")
def published():
    """Path of a published file by its name; the test is skipped where it is missing."""

    def find(name: str) -> Path:
        path = PUBLISHED / name
        if not path.is_file():
            pytest.skip(f"{name} is not at ../shared/data")
        return path

    return find
