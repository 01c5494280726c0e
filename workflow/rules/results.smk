# From runs to MLflow, tables, figures and the report.


rule mirror:
    input:
        runs=lambda wildcards: here(JOBS.job("mirror", wildcards.method).needs),
    output:
        result("mirror"),
    log:
        log_of("mirror"),
    params:
        command=command("mirror"),
    message:
        sentence("mirror")
    shell:
        JOB


rule collect:
    input:
        mirrored=markers(JOBS.job("mirror", name) for name in JOBS.methods),
    output:
        result("collect"),
    log:
        log_of("collect"),
    params:
        command=command("collect"),
    message:
        sentence("collect")
    shell:
        JOB


rule report:
    input:
        collected=made("collect"),
        # Also the replicates' collections, what was made on demand, data cards and the overlap audit.
        beside=markers(JOBS.job("report").needs),
    output:
        result("report"),
    log:
        log_of("report"),
    params:
        command=command("report"),
    message:
        sentence("report")
    shell:
        JOB


rule publish:
    input:
        report=made("report"),
    output:
        result("publish"),
    log:
        log_of("publish"),
    params:
        command=command("publish"),
    message:
        sentence("publish")
    shell:
        JOB


rule peers_table:
    input:
        evaluations=markers(JOBS.job("peers").needs),
    output:
        result("peers"),
    log:
        log_of("peers"),
    params:
        command=command("peers"),
    message:
        sentence("peers")
    shell:
        JOB


if STUDY.synthetic:

    rule lost_points_table:
        input:
            runs=markers(JOBS.job("lost_points_table").needs),
        output:
            result("lost_points_table"),
        log:
            log_of("lost_points_table"),
        params:
            command=command("lost_points_table"),
        message:
            sentence("lost_points_table")
        shell:
            JOB


# A replicate is a study of its own: one job runs its whole workflow. Locally a job gets no more cores
# than there are.
if REPLICATES:

    rule replicate:
        output:
            "results/{study}/collected/{fingerprint}/.made",
        wildcard_constraints:
            study="|".join(other.name for other in REPLICATES),
        threads: 8
        resources:
            **ON_MODELS,
        params:
            start=f"{PYTHON} snakemake -s {shlex.quote(str(workflow.main_snakefile))}",
        message:
            "All of the study {wildcards.study}"
        shell:
            "{params.start} --cores {threads} all --config study={wildcards.study:q} >&2"
