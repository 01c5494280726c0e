# Models and runs: base model, Shared SFT, training, selection, evaluation, continuation study.


rule base:
    input:
        needs("base"),
    output:
        result("models/base"),
    log:
        log("base"),
    threads: 2 if STUDY.scratch_model else 1
    message:
        "Base model, from scratch" if STUDY.scratch_model else "Pretrained models"
    shell:
        pcqc("base")


rule sft:
    input:
        needs("sft"),
    output:
        result("models/sft"),
    log:
        log("sft"),
    resources:
        **ON_MODELS,
    message:
        "Shared SFT: actor and patient"
    shell:
        pcqc("sft", start=LAUNCHER)


# What a stopped run needs to go on lies beside the manifest and is no output, so that a rerun finds it.
rule train:
    input:
        needs("train", "method", "run"),
    output:
        result("runs/{method}/{run}"),
    log:
        log("train", "method", "run"),
    resources:
        **ON_MODELS,
    message:
        "Train {wildcards.method}, run {wildcards.run}"
    shell:
        pcqc("train", "method", "run", start=LAUNCHER)


rule select:
    input:
        needs("select", "method", "run"),
    output:
        result("selection/{method}/{run}"),
    log:
        log("select", "method", "run"),
    message:
        "Choose the checkpoint of {wildcards.method}, run {wildcards.run}"
    shell:
        pcqc("select", "method", "run")


rule evaluate:
    input:
        needs("evaluate", "method", "run"),
    output:
        result("evaluation/{method}/{run}"),
    log:
        log("evaluate", "method", "run"),
    resources:
        **ON_MODELS,
    message:
        "Evaluate {wildcards.method}, run {wildcards.run}"
    shell:
        pcqc("evaluate", "method", "run")


# The continuation study: what comes of each candidate question, and which answers may count.
rule continue_candidates:
    input:
        needs("continuation", "method", "run"),
    output:
        result("continuation/{method}/{run}"),
    log:
        log("continuation", "method", "run"),
    resources:
        **ON_MODELS,
    message:
        "Continue from the candidates of {wildcards.method}, run {wildcards.run}"
    shell:
        pcqc("continuation", "method", "run")


rule ground_answers:
    input:
        needs("grounding", "method", "run"),
    output:
        result("grounding/{method}/{run}"),
    log:
        log("grounding", "method", "run"),
    resources:
        **({} if STUDY.synthetic else ON_MODELS),
    message:
        "Judge the answers of {wildcards.method}, run {wildcards.run}"
    shell:
        pcqc("grounding", "method", "run")
