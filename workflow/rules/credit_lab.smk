# Experiments on credit (src/credit_lab/). The audit and the map have clinics of their own and read no
# study's results. Credit quality plays consultations of trained policies and trains nothing.

from credit_lab import jobs as lab
from credit_lab.map.job import read_predictions

MAP_CELLS = list(read_predictions())
LAB_TABLES = {}
if STUDY.credit_quality:
    LAB_TABLES["credit_quality"] = lab.quality_table(STUDY).path / "credit_quality.md"


def credit_lab(command):
    """As `pcqc`, of the package `credit_lab`."""
    return f"({PYTHON} credit_lab {command}) 2>&1 | tee {{log:q}} >&2"


rule audit_credits:
    output:
        "results/audit/{recipe}/manifest.json",
    log:
        LOGS / "audit-{recipe}.log",
    message:
        "Audit of credits"
    shell:
        credit_lab("audit")


rule credit_audit:
    input:
        manifests([lab.audit()]),
    message:
        "results/audit/latest/table.md"


# One job per cell, so that an interrupted map goes on; nothing is predicted here.
rule map_cell:
    output:
        "results/map/{cell}/{recipe}/manifest.json",
    log:
        LOGS / "map" / "{cell}-{recipe}.log",
    wildcard_constraints:
        cell="|".join(MAP_CELLS),
    message:
        "Map: linear policies in the cell {wildcards.cell}"
    shell:
        credit_lab("map train {wildcards.cell}")


rule map_figure:
    input:
        manifests([lab.map_cell(name) for name in MAP_CELLS]),
    output:
        "results/map/figure/{recipe}/manifest.json",
    log:
        LOGS / "map" / "figure-{recipe}.log",
    message:
        "Map: table and figure"
    shell:
        credit_lab("map figure")


rule map:
    input:
        manifests([*(lab.map_cell(name) for name in MAP_CELLS), lab.map_figure(MAP_CELLS)]),
    message:
        "results/map/figure/latest/map.md"


rule question_credits:
    input:
        lambda wildcards: manifests(lab.quality(STUDY, wildcards.method, wildcards.run).needs),
    output:
        RESULTS / "credit_quality/{method}/{run}/{recipe}/manifest.json",
    log:
        LOGS / "credit_quality" / "{method}-{run}-{recipe}.log",
    resources:
        **ON_MODELS,
    message:
        "Credits at the states of {wildcards.method}, run {wildcards.run}"
    shell:
        credit_lab(f"quality run {STUDY_NAME} {{wildcards.method:q}} {{wildcards.run:q}}")


rule credits:
    input:
        lambda wildcards: manifests(lab.quality_table(STUDY).needs),
    output:
        RESULTS / "credits/{recipe}/manifest.json",
    log:
        LOGS / "credits" / "{recipe}.log",
    message:
        "Quality of credits"
    shell:
        credit_lab(f"quality table {STUDY_NAME}")


if STUDY.credit_quality:

    rule credit_quality:
        input:
            manifests(JOBS.shared()),
            manifests([JOBS.job("select", *pair) for pair in STUDY.credited]),
            manifests([lab.quality(STUDY, *pair) for pair in STUDY.credited]),
            manifests([lab.quality_table(STUDY)]),
        message:
            f"{RESULTS}/credits/latest/credit_quality.md"
