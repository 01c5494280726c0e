import argparse

import pytest

from pcqc.system.files import read_json
from pcqc.tracking import cli


@pytest.fixture
def run(ready, monkeypatch):
    """`pcqc track ...` on the study at hand."""
    monkeypatch.setattr("pcqc.study.load_study", lambda name: {"clinic": ready}[name])
    parser = argparse.ArgumentParser()
    cli.register(parser.add_subparsers(required=True))

    def call(*words):
        arguments = parser.parse_args(["track", *words])
        arguments.handler(arguments)

    return call


def test_mirror_takes_the_named_runs_and_collect_gathers_them(ready, run):
    for name in set(ready.methods) - {"shared_sft", "pcqc"}:
        del ready.methods[name]
    run("prepare", "clinic")
    run("mirror", "clinic", "shared_sft")
    run("mirror", "clinic", "pcqc", "--runs", "A,C")
    tracking = ready.results / "tracking" / "pcqc.json"
    assert list(read_json(tracking)["runs"]) == ["A", "C"]
    run("mirror", "clinic", "pcqc", "--runs", "B")
    assert list(read_json(tracking)["runs"]) == ["A", "B", "C"]
    run("collect", "clinic")
    assert (ready.results / "collected" / "latest" / "predictions.parquet").exists()
