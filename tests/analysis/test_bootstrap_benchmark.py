"""The benchmark of the paired bootstrap keeps its bounds, all in one run of it."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

FILE = Path(__file__).parents[2] / "benchmarks" / "bootstrap.py"


@pytest.fixture
def benchmark(monkeypatch):
    spec = importlib.util.spec_from_file_location("bootstrap_benchmark", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(sys, "argv", [str(FILE)])
    return module


@pytest.mark.long
def test_speed_and_coverage(benchmark, capsys):
    status = benchmark.main()
    found = json.loads(capsys.readouterr().out)
    assert (found["resamples"], found["pairs"]) == (10_000, 1268)
    assert found["seconds"] < 0.3
    assert found["times_faster"] >= 20
    assert abs(found["coverage_percent"] - 95) <= 1
    assert status == 0


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
