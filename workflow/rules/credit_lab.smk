# The map of credits (src/credit_lab/map), which has clinics of its own and reads no study's results.

from credit_lab import jobs as lab
from credit_lab.map.job import read_predictions

MAP_CELLS = list(read_predictions())


def credit_lab(command):
    """As `pcqc`, of the package `credit_lab`."""
    return f"({PYTHON} credit_lab {command}) 2>&1 | tee {{log:q}} >&2"


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
