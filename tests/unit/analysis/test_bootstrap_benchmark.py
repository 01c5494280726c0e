"""The benchmark of the paired bootstrap keeps its bounds."""

import importlib.util
import sys
from pathlib import Path

import pytest

FILE = Path(__file__).parents[3] / "benchmarks" / "bootstrap.py"


@pytest.fixture
def benchmark(monkeypatch):
    spec = importlib.util.spec_from_file_location("bootstrap_benchmark", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(sys, "argv", [str(FILE)])
    return module


def test_an_interval_that_is_too_narrow_is_noticed(benchmark, monkeypatch):
    """Without this the simulation might cover anything: a tenth of the width covers far less."""
    honest = benchmark.paired_comparison

    def narrow(*outcomes, **options):
        found = honest(*outcomes, **options)
        middle, half = (found.low + found.high) / 2, (found.high - found.low) / 20
        return type(found)(**{**vars(found), "low": middle - half, "high": middle + half})

    assert abs(benchmark.coverage(200) - 95) < 4
    monkeypatch.setattr(benchmark, "paired_comparison", narrow)
    assert benchmark.coverage(200) < 50
