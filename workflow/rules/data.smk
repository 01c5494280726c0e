# Cases of the clinic are drawn; those of a real study are converted from the files of their sources.


rule clinic:
    output:
        result("clinic"),
    log:
        log("clinic"),
    message:
        "Cases and SFT conversations of the clinic"
    shell:
        pcqc("clinic")


rule convert:
    output:
        result("convert"),
    log:
        log("convert"),
    message:
        "Convert {wildcards.file}"
    shell:
        pcqc("convert")


# What training and evaluation share is counted and listed to be read; no case is dropped for it.
rule overlap:
    input:
        needs("overlap"),
    output:
        result("overlap"),
    log:
        log("overlap"),
    message:
        "Audit the overlap of training and evaluation"
    shell:
        pcqc("overlap")


# The actor's system message, where the study leaves it to the published cases.
rule instruction:
    input:
        needs("instruction"),
    output:
        result("instruction"),
    log:
        log("instruction"),
    message:
        "The actor's system message"
    shell:
        pcqc("instruction")


# One job for each set: a benchmark that is added later leaves the others alone.
rule prepare:
    input:
        needs("prepare"),
    output:
        result("prepare"),
    log:
        log("prepare"),
    wildcard_constraints:
        set="|".join(["train", *STUDY.benchmarks]),
    message:
        "Cases of {wildcards.set}"
    shell:
        pcqc("prepare")
