# PCQC: from cases to tables. `snakemake --cores` makes everything of one study (`--config study=NAME`,
# the clinic by default); a method's name as target makes that method alone, evaluated and logged.

from snakemake.utils import min_version

min_version("9.0")


include: "workflow/rules/common.smk"
include: "workflow/rules/data.smk"
include: "workflow/rules/models.smk"
include: "workflow/rules/runs.smk"
include: "workflow/rules/continuation.smk"
include: "workflow/rules/tracking.smk"
include: "workflow/rules/report.smk"


rule all:
    default_target: True
    input:
        PREPARED,
        TABLES,
        FIGURES,
        REPORT,
    message:
        "{REPORT}"


# One target per method and control: `snakemake --cores 2 executed_local`.
for name in METHODS:

    rule:
        name:
            name
        input:
            tracked(name),
        message:
            "{input}"
