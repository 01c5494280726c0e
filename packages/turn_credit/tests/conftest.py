"""The lines of the package's README, which tests run."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def example() -> tuple[str, str]:
    """The code of the README, and what it prints."""
    text = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    return tuple(text.split(f"```{kind}\n")[1].split("```")[0] for kind in ("python", "text"))
