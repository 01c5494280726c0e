"""The order in which a run meets its cases."""

import pytest
from helpers import make_case

from pcqc.jobs.rl_loop import cases_of_update
from pcqc_base.errors import UserError

CASES = [make_case(i) for i in range(5)]


def test_passes_over_the_cases_have_orders_of_their_own():
    """Five cases make two updates of two in a pass; the one left over differs from pass to pass."""
    drawn = [{c.case_id for c in cases_of_update(CASES, 3, update, 2)} for update in range(1, 21)]
    passes = [drawn[i] | drawn[i + 1] for i in range(0, 20, 2)]
    assert all(len(ids) == 2 for ids in drawn)
    assert all(len(ids) == 4 for ids in passes)
    assert set().union(*passes) == {c.case_id for c in CASES}
    assert len({frozenset(ids) for ids in passes}) > 1
    other = [{c.case_id for c in cases_of_update(CASES, 4, update, 2)} for update in range(1, 21)]
    assert other != drawn


def test_fewer_cases_than_an_update_takes_are_refused():
    with pytest.raises(UserError, match=r"5 training cases are fewer than rl\.cases_per"):
        cases_of_update(CASES, 3, 1, 6)
