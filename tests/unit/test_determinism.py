"""How many threads torch gets: what OpenMP takes is taken, what it cannot mean is one line."""

import pytest
import torch

from pcqc.determinism import single_threaded
from pcqc_base.errors import UserError


@pytest.fixture
def threads(monkeypatch):
    """The number of threads that torch was given, in place of giving them."""
    given = []
    monkeypatch.setattr(torch, "set_num_threads", given.append)
    return given


@pytest.mark.parametrize(
    ("setting", "wanted"), [(None, 1), ("", 1), (" ", 1), ("3", 3), ("4,2", 4), (" 2 , 1", 2)]
)
def test_the_outermost_level_counts_and_no_number_means_one(monkeypatch, threads, setting, wanted):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if setting is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", setting)
    single_threaded()
    assert threads == [wanted]


@pytest.mark.parametrize("setting", ["all", "0", "-1", "2.5", "\u0664", "9" * 5000])
def test_what_is_no_number_of_threads_is_named(monkeypatch, threads, setting):
    monkeypatch.setenv("OMP_NUM_THREADS", setting)
    with pytest.raises(UserError, match=r"^OMP_NUM_THREADS is '.*': set it to a number"):
        single_threaded()
    assert threads == []
