"""What the players of all tests meet: the same cases of the same worlds."""

import functools

import pytest

from clinic_env.v2 import Values, load


@functools.cache
def values_of(name: str) -> Values:
    return Values(load(name))


@pytest.fixture(autouse=True)
def same_values(monkeypatch):
    """What is known exactly of a case is computed for the first player that is scored on it."""
    monkeypatch.setattr("clinic_env.v2.score.Values", lambda world: values_of(world.name))
