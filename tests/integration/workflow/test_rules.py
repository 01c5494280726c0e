"""The rules of the workflow, as people write them, read what the table of kinds says."""

import re

import pytest
from workplace import STUDY, Workplace

from pcqc_base.system.checkout import ROOT
from pcqc_study.graph import Jobs
from pcqc_study.job_kinds import KINDS
from pcqc_study.study_file import load_study

# Snakemake leaves out of a label what its neighbours' say too; a fingerprint is a job's own.
NODE = re.compile(r'^\s*(\d+)\[label = "[^"]*fingerprint: ([0-9a-f]{8})', re.MULTILINE)
EDGE = re.compile(r"^\s*(\d+) -> (\d+)$", re.MULTILINE)
TARGETS = ("all", "peers", "lost_points")


@pytest.fixture(scope="module")
def jobs():
    """Short fingerprint -> job, of every job of the miniature study."""
    made = Jobs(load_study(STUDY), TARGETS)
    return {job.path.name: job for job in (*made.all(), *made.on_demand())}


@pytest.fixture(scope="module")
def edges(jobs, tmp_path_factory):
    """(job, job that reads it) of Snakemake's graph, by their names."""
    place = Workplace(tmp_path_factory.mktemp("rules") / "place")
    done = place.run(place.workflow(*TARGETS, "--dag", "dot"))
    assert done.returncode == 0, done.stderr[-3000:]
    names = {number: jobs[short].name for number, short in NODE.findall(done.stdout)}
    pairs = EDGE.findall(done.stdout)
    return {(names[a], names[b]) for a, b in pairs if a in names and b in names}


def test_every_rule_reads_the_jobs_that_its_kind_reads(jobs, edges):
    told = {(need.name, job.name) for job in jobs.values() for need in job.needs}
    drawn = {reader for _, reader in edges}
    assert {"train pcqc A", "evaluate c3 A", "lost_points grpo B", "clinic sft"} <= drawn
    assert edges == {(a, b) for a, b in told if b in drawn}


def behind(rule, arrows):
    """All rules that run after a rule, by a graph's arrows."""
    after: set[str] = set()
    while more := {b for a, b in arrows if a in after | {rule}} - after:
        after |= more
    return after


def test_the_page_s_graph_has_the_order_of_the_clinic_s_rules_and_no_arrow_too_many():
    """An arrow that the others imply is left out."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    drawn = set(re.findall(r"^    (\w+) --> (\w+)$", page, re.MULTILINE))
    rule = {name: kind.rule or name for name, kind in KINDS.items()}
    read = {
        (rule[need.kind], rule[job.kind])
        for job in Jobs(load_study("clinic")).all()
        for need in job.needs
        if need.kind != job.kind
    }
    assert {(a, b) for a, _ in drawn for b in behind(a, drawn)} == {
        (a, b) for a, _ in read for b in behind(a, read)
    }
    assert all(b not in behind(a, drawn - {(a, b)}) for a, b in drawn)
