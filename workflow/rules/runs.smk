# What every consultation is held with.
MODELS = [*rules.base.output, *rules.sft.output, *INSTRUCTION]


# What a stopped run needs to go on lies beside the manifest and is no output, so that a rerun finds it.
rule train:
    input:
        MODELS,
        PATHS.train_cases,
        PATHS.cases(STUDY.development),
    output:
        PATHS.run("{method}", "{run}") / "manifest.json",
    log:
        LOGS / "train" / "{method}-{run}.log",
    resources:
        **ON_MODELS,
    params:
        settings=lambda wildcards: digest(run_settings(STUDY, wildcards.method, wildcards.run)),
        source=source_fingerprint("pcqc.jobs.train"),
    message:
        "Train {wildcards.method}, run {wildcards.run}"
    shell:
        pcqc(f"train {STUDY_ARGUMENT} {{wildcards.method}} {{wildcards.run}}", LAUNCHER)


rule search_tree:
    input:
        PATHS.run("{method}", "{run}") / "manifest.json",
    output:
        PATHS.run("{method}", "{run}") / "search_tree.svg",
    log:
        LOGS / "search_tree" / "{method}-{run}.log",
    params:
        source=source_fingerprint("analysis.search_tree"),
    message:
        "Draw a tree of {wildcards.method}, run {wildcards.run}"
    shell:
        pcqc(f"tree {STUDY_ARGUMENT} {{wildcards.method}} {{wildcards.run}}")


def trained(wildcards):
    if wildcards.method not in RL_METHODS:
        return MODELS
    return [PATHS.run(wildcards.method, wildcards.run) / "manifest.json"]


rule select:
    input:
        trained,
    output:
        PATHS.evaluation("{method}", "{run}") / "selection.json",
    log:
        LOGS / "select" / "{method}-{run}.log",
    params:
        settings=settings("benchmarks"),
        source=source_fingerprint("pcqc.jobs.select"),
    message:
        "Choose the checkpoint of {wildcards.method}, run {wildcards.run}"
    shell:
        pcqc(f"select {STUDY_ARGUMENT} {{wildcards.method}} {{wildcards.run}}")


rule evaluate:
    input:
        PATHS.evaluation("{method}", "{run}") / "selection.json",
        trained,
        MODELS,
        [PATHS.cases(name) for name in STUDY.benchmarks],
    output:
        PATHS.evaluation("{method}", "{run}") / "manifest.json",
    log:
        LOGS / "evaluate" / "{method}-{run}.log",
    resources:
        **ON_MODELS,
    params:
        settings=digest(job_settings(STUDY, "evaluate")),
        source=source_fingerprint("pcqc.jobs.evaluate"),
    message:
        "Evaluate {wildcards.method}, run {wildcards.run}"
    shell:
        pcqc(f"evaluate {STUDY_ARGUMENT} {{wildcards.method}} {{wildcards.run}}")
