# One run of a method: its training, the choice of its checkpoint, its evaluation, and what its questions
# lead to. Shared SFT is a run without training.


def training(wildcards):
    """Input: the training of the run; Shared SFT has none."""
    return markers(JOBS.trained(wildcards.method, wildcards.run).values())


rule train:
    input:
        cases=cases("train", DEVELOPMENT),
        base=made("base"),
        sft=made("sft"),
        world=given(JOBS.world(), JOBS.instruction()),
    output:
        result("train"),
    log:
        log_of("train"),
    # The longest jobs: what is short fills the cores at the end.
    priority: 1
    resources:
        **asked("train"),
    params:
        command=command("train"),
    message:
        sentence("train")
    shell:
        JOB


rule select:
    input:
        run=lambda wildcards: here(JOBS.trained(wildcards.method, wildcards.run).values()),
    output:
        result("select"),
    log:
        log_of("select"),
    params:
        command=command("select"),
    message:
        sentence("select")
    shell:
        JOB


rule evaluate:
    input:
        cases=cases(*STUDY.benchmarks),
        base=made("base"),
        sft=made("sft"),
        instruction=given(JOBS.instruction()),
        run=training,
        selection=of_run("select"),
    output:
        result("evaluate"),
    log:
        log_of("evaluate"),
    resources:
        **asked("evaluate"),
    params:
        command=command("evaluate"),
    message:
        sentence("evaluate")
    shell:
        JOB


rule continue_candidates:
    input:
        lambda wildcards: markers(JOBS.job("continuation", wildcards.method, wildcards.run).needs),
    output:
        result("continuation"),
    log:
        log_of("continuation"),
    priority: 1  # as long as a training
    resources:
        **asked("continuation"),
    params:
        command=command("continuation"),
    message:
        sentence("continuation")
    shell:
        JOB


rule ground_answers:
    input:
        candidates=of_run("continuation"),
        development=cases(DEVELOPMENT),
        judges=lambda wildcards: markers(
            JOBS.job("grounding", wildcards.method, wildcards.run).needs
        ),
    output:
        result("grounding"),
    log:
        log_of("grounding"),
    resources:
        **asked("grounding"),
    params:
        command=command("grounding"),
    message:
        sentence("grounding")
    shell:
        JOB


if STUDY.synthetic:

    rule lost_points_of_a_run:
        input:
            development=cases(DEVELOPMENT),
            world=given(JOBS.world()),
            sft=made("sft"),
            run=training,
        output:
            result("lost_points"),
        log:
            log_of("lost_points"),
        resources:
            **asked("lost_points"),
        params:
            command=command("lost_points"),
        message:
            sentence("lost_points")
        shell:
            JOB
