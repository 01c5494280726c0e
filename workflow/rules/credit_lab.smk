# Experiments on credit (src/credit_lab/). The audit and the map have clinics of their own and read no
# study's results. Credit quality plays consultations of trained policies and trains nothing.

from credit_lab.map.job import PREDICTIONS, read_predictions
from credit_lab.map.settings import load_map
from credit_lab.quality.results import outputs

MAP_CELLS = list(read_predictions())
MAP = Path("results") / "map"
CREDIT_TABLE = RESULTS / "tables" / "credit_quality.md"
CREDIT_QUALITY = outputs(STUDY)


def credit_lab(command):
    """As `pcqc`, of the package `credit_lab`."""
    return f"({PYTHON} credit_lab {command}) 2>&1 | tee {{log:q}} >&2"


rule credit_audit:
    output:
        "results/audit/table.csv",
        "results/audit/table.md",
    log:
        LOGS / "audit.log",
    params:
        settings=lambda wildcards: digest(load_study("paper").to_dict()["methods"]),
        source=lambda wildcards: source_fingerprint("credit_lab.audit.table"),
    message:
        "Audit of credits: {output[1]}"
    shell:
        credit_lab("audit")


# One job per cell, so that an interrupted map goes on; nothing is predicted here.
rule map_cell:
    output:
        "results/map/{cell}.json",
    log:
        LOGS / "map" / "{cell}.log",
    wildcard_constraints:
        cell="|".join(MAP_CELLS),
    params:
        settings=digest(load_map()),
        predictions=inputs_fingerprint([PREDICTIONS]),
        methods=lambda wildcards: digest(load_study("paper").to_dict()["methods"]),
        source=lambda wildcards: source_fingerprint("credit_lab.map.job"),
    message:
        "Map: linear policies in the cell {wildcards.cell}"
    shell:
        credit_lab("map train {wildcards.cell}")


rule map_figure:
    input:
        expand(rules.map_cell.output, cell=MAP_CELLS),
    output:
        expand(MAP / "map.{form}", form=["csv", "md", "svg", "png"]),
    log:
        LOGS / "map" / "figure.log",
    params:
        source=source_fingerprint("credit_lab.map.results"),
    message:
        "Map: table and figure"
    shell:
        credit_lab("map figure")


# The cells are inputs too: where the figure exists, Snakemake would not miss a cell's file.
rule map:
    input:
        rules.map_figure.input,
        rules.map_figure.output,
    message:
        "results/map/map.md"


rule question_credits:
    input:
        PATHS.evaluation("{method}", "{run}") / "selection.json",
        trained,
        MODELS,
        PATHS.cases(STUDY.development),
        ancient(DATA_MANIFEST),
    output:
        PATHS.credit_quality("{method}", "{run}") / "manifest.json",
    log:
        LOGS / "credit_quality" / "{method}-{run}.log",
    resources:
        **ON_MODELS,
    params:
        made_from=made_from("credit_quality"),
    message:
        "Credits at the states of {wildcards.method}, run {wildcards.run}"
    shell:
        credit_lab(f"quality run {STUDY_NAME} {{wildcards.method:q}} {{wildcards.run:q}}")


rule credits:
    input:
        [PATHS.credit_quality(*pair) / "manifest.json" for pair in STUDY.credited],
    output:
        CREDIT_QUALITY,
        receipt("credits"),
    log:
        LOGS / "credits.log",
    params:
        settings=digest(STUDY.to_dict()),
        source=lambda wildcards: source_fingerprint("credit_lab.quality.results"),
    message:
        "Quality of credits"
    shell:
        credit_lab(f"quality table {STUDY_NAME}")
