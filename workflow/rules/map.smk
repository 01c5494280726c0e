# The map of where question credit pays reads no study's results: cells, predictions, a clinic of its
# own. One job per cell, so that an interrupted map goes on; nothing is predicted here.

from pcqc.map.job import PREDICTIONS, read_predictions
from pcqc.map.settings import load_map

MAP_CELLS = list(read_predictions())
MAP = Path("results") / "map"


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
        source=lambda wildcards: source_fingerprint("pcqc.map.job"),
    message:
        "Map: linear policies in the cell {wildcards.cell}"
    shell:
        pcqc("map train {wildcards.cell}")


rule map_figure:
    input:
        expand(rules.map_cell.output, cell=MAP_CELLS),
    output:
        expand(MAP / "map.{form}", form=["csv", "md", "svg", "png"]),
    log:
        LOGS / "map" / "figure.log",
    params:
        source=source_fingerprint("analysis.map"),
    message:
        "Map: table and figure"
    shell:
        pcqc("map-figure")


# The cells are named too: a missing one would be taken for made where the figure is there.
rule map:
    input:
        rules.map_figure.input,
        rules.map_figure.output,
    message:
        "results/map/map.md"
