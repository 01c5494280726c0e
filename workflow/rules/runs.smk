# Models and runs: base model, Shared SFT, training, selection, evaluation, continuation study.


rule base:
    input:
        needs("base"),
    output:
        result("base"),
    log:
        log("base"),
    message:
        "Base model, from scratch" if STUDY.scratch_model else "Pretrained models"
    shell:
        pcqc("base")


rule sft:
    input:
        needs("sft"),
    output:
        result("sft"),
    log:
        log("sft"),
    resources:
        **SHARED_OUT,
    message:
        "Shared SFT: actor and patient"
    shell:
        pcqc("sft", start=LAUNCHER)


# What a stopped run needs to go on lies beside the manifest and is no output, so that a rerun finds it.
rule train:
    input:
        needs("train"),
    output:
        result("train"),
    log:
        log("train"),
    # The longest jobs first: what is short fills the cores at the end.
    priority: 1
    resources:
        **SHARED_OUT,
    message:
        "Train {wildcards.method}, run {wildcards.run}"
    shell:
        pcqc("train", start=LAUNCHER)


rule select:
    input:
        needs("select"),
    output:
        result("select"),
    log:
        log("select"),
    message:
        "Choose the checkpoint of {wildcards.method}, run {wildcards.run}"
    shell:
        pcqc("select")


rule evaluate:
    input:
        needs("evaluate"),
    output:
        result("evaluate"),
    log:
        log("evaluate"),
    resources:
        **SHARED_OUT,
    message:
        "Evaluate {wildcards.method}, run {wildcards.run}"
    shell:
        pcqc("evaluate", start=LAUNCHER)


# The continuation study: what comes of each candidate question, and which answers may count.
rule continue_candidates:
    input:
        needs("continuation"),
    output:
        result("continuation"),
    log:
        log("continuation"),
    resources:
        **SHARED_OUT,
    message:
        "Continue from the candidates of {wildcards.method}, run {wildcards.run}"
    shell:
        pcqc("continuation", start=LAUNCHER)


rule ground_answers:
    input:
        needs("grounding"),
    output:
        result("grounding"),
    log:
        log("grounding"),
    resources:
        **({} if STUDY.synthetic else ON_MODELS),
    message:
        "Judge the answers of {wildcards.method}, run {wildcards.run}"
    shell:
        pcqc("grounding")


# Only the clinic knows an exact doctor. On demand: `snakemake --cores lost_points`.
rule lost_points_of_a_run:
    input:
        needs("lost_points"),
    output:
        result("lost_points"),
    log:
        log("lost_points"),
    resources:
        **ON_MODELS,
    message:
        "Where {wildcards.method}, run {wildcards.run}, loses its points"
    shell:
        pcqc("lost_points")
