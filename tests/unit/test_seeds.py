import numpy as np

from pcqc.seeds import stream, uniform


def test_neighbouring_coordinates_do_not_run_together():
    assert stream(1, "ab", "c") != stream(1, "a", "bc")
    assert stream(1, 11, 1) != stream(1, 1, 11)
    assert stream(11, 1) != stream(1, 11)


def test_streams_do_not_depend_on_the_process():
    """blake2b, not `hash`: the same in a process with another hash seed, and on another machine."""
    assert stream(1, "actor", "case-1", 0, 0, 0) == 5026747377123395199


def test_uniform_is_uniform_on_the_half_open_interval():
    draws = np.concatenate([uniform(np.array([stream(3, i)], np.uint64), 0) for i in range(4000)])
    assert draws.min() >= 0
    assert draws.max() < 1
    counts, _ = np.histogram(draws, bins=10, range=(0, 1))
    assert ((counts - 400) ** 2 / 400).sum() < 27.9  # chi-square, 9 degrees of freedom, p = 0.001


def test_draws_of_one_stream_differ_and_are_not_correlated():
    streams = np.array([stream(5, i) for i in range(2000)], np.uint64)
    first, second = uniform(streams, 0), uniform(streams, 1)
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.08
