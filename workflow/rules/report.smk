# From finished runs to the report, through MLflow.


rule mirror:
    input:
        needs("mirror"),
    output:
        result("mirror"),
    log:
        log("mirror"),
    message:
        "Mirror {wildcards.method} in MLflow"
    shell:
        pcqc("mirror")


rule collect:
    input:
        needs("collect"),
    output:
        result("collect"),
    log:
        log("collect"),
    message:
        "Collect all runs from MLflow"
    shell:
        pcqc("collect")


rule report:
    input:
        needs("report"),
    output:
        result("report"),
    log:
        log("report"),
    message:
        "Tables, figures, transcripts and report"
    shell:
        pcqc("report")


rule publish:
    input:
        needs("publish"),
    output:
        result("publish"),
    log:
        log("publish"),
    message:
        "Publish the report in MLflow"
    shell:
        pcqc("publish")


rule peers_table:
    input:
        needs("peers"),
    output:
        result("peers"),
    log:
        log("peers"),
    message:
        "Table of other credit rules"
    shell:
        pcqc("peers")


rule lost_points_table:
    input:
        needs("lost_points_table"),
    output:
        result("lost_points_table"),
    log:
        log("lost_points_table"),
    message:
        "Table of lost points"
    shell:
        pcqc("lost_points_table")


# A replicate is a study of its own: one job runs its whole workflow. Locally a job gets no more cores
# than there are.
if REPLICATES:

    rule replicate:
        output:
            "results/{study}/collected/{recipe}/manifest.json",
        wildcard_constraints:
            study="|".join(other.name for other in REPLICATES),
        threads: 8
        resources:
            **ON_MODELS,
        message:
            "All of the study {wildcards.study}"
        shell:
            f"{PYTHON} snakemake -s {SNAKEFILE} --cores {{threads}} all "
            "--config study={wildcards.study:q} >&2"
