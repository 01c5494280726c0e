# Cases: raw files, which the clinic draws or others published, are converted, audited and selected.
# What each job is told and reads stands in `src/pcqc_study/job_kinds/`; a test compares the two.

DEVELOPMENT = STUDY.development

if STUDY.synthetic:

    rule clinic:
        input:
            lambda wildcards: markers(JOBS.job("clinic", wildcards.set).needs),
        output:
            result("clinic"),
        log:
            log_of("clinic"),
        params:
            command=command("clinic"),
        message:
            sentence("clinic")
        shell:
            JOB


rule convert:
    input:
        lambda wildcards: markers(JOBS.job("convert", wildcards.file).needs),
    output:
        result("convert"),
    log:
        log_of("convert"),
    params:
        command=command("convert"),
    message:
        sentence("convert")
    shell:
        JOB


rule overlap:
    input:
        converted=markers(JOBS.job("convert", name) for name in STUDY.raw_files),
    output:
        result("overlap"),
    log:
        log_of("overlap"),
    params:
        command=command("overlap"),
    message:
        sentence("overlap")
    shell:
        JOB


rule instruction:
    input:
        converted=markers(JOBS.job("instruction").needs),
    output:
        result("instruction"),
    log:
        log_of("instruction"),
    params:
        command=command("instruction"),
    message:
        sentence("instruction")
    shell:
        JOB


rule prepare:
    input:
        converted=lambda wildcards: markers(
            job for job in JOBS.job("prepare", wildcards.set).needs if job.kind == "convert"
        ),
        instruction=given(JOBS.instruction()),
        tokenizer=here([JOBS.job("base")]),
    output:
        result("prepare"),
    log:
        log_of("prepare"),
    priority: 1  # fine-tuning waits for it
    params:
        command=command("prepare"),
    message:
        sentence("prepare")
    shell:
        JOB
