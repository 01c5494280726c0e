# What every consultation is held with.
MODELS = [*rules.base.output, *rules.sft.output, *INSTRUCTION]


# What a stopped run needs to go on lies beside the manifest and is no output, so that a rerun finds it.
rule train:
    input:
        MODELS,
        PATHS.train_cases,
        PATHS.cases(STUDY.development),
        [PATHS.world] if STUDY.synthetic else [],
        ancient(DATA_MANIFEST),
    output:
        PATHS.run("{method}", "{run}") / "manifest.json",
    log:
        LOGS / "train" / "{method}-{run}.log",
    resources:
        **ON_MODELS,
    params:
        made_from=made_from("train"),
    message:
        "Train {wildcards.method}, run {wildcards.run}"
    shell:
        pcqc(f"train {STUDY_NAME} {{wildcards.method:q}} {{wildcards.run:q}}", LAUNCHER)


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
        made_from=made_from("select"),
    message:
        "Choose the checkpoint of {wildcards.method}, run {wildcards.run}"
    shell:
        pcqc(f"select {STUDY_NAME} {{wildcards.method:q}} {{wildcards.run:q}}")


rule evaluate:
    input:
        PATHS.evaluation("{method}", "{run}") / "selection.json",
        trained,
        MODELS,
        [PATHS.cases(name) for name in STUDY.benchmarks],
        ancient(DATA_MANIFEST),
    output:
        PATHS.evaluation("{method}", "{run}") / "manifest.json",
    log:
        LOGS / "evaluate" / "{method}-{run}.log",
    resources:
        **ON_MODELS,
    params:
        made_from=made_from("evaluate"),
    message:
        "Evaluate {wildcards.method}, run {wildcards.run}"
    shell:
        pcqc(f"evaluate {STUDY_NAME} {{wildcards.method:q}} {{wildcards.run:q}}")
