if STUDY.synthetic:

    rule base:
        input:
            PATHS.world,
        output:
            PATHS.model("base") / "manifest.json",
        log:
            LOGS / "base.log",
        params:
            settings=settings(
                "clinic", "scratch_model", "protocol", budget=STUDY.rl.tokens_per_micro_batch
            ),
            source=source_fingerprint("data_prep.clinic.pretrain"),
        message:
            "Base model, from scratch"
        shell:
            pcqc(f"pretrain {STUDY_ARGUMENT}")

else:

    rule base:
        output:
            [PATHS.model(folder) / "manifest.json" for folder in STUDY.pretrained],
        log:
            LOGS / "base.log",
        params:
            settings=settings("models"),
            source=source_fingerprint("pcqc.jobs.pretrained"),
        message:
            "Pretrained models"
        shell:
            pcqc(f"models {STUDY_ARGUMENT}")


rule sft:
    input:
        rules.base.output,
        PATHS.conversations,
        INSTRUCTION,
    output:
        PATHS.model("actor") / "manifest.json",
        PATHS.model("patient") / "manifest.json",
    log:
        LOGS / "sft.log",
    resources:
        **ON_MODELS,
    params:
        settings=digest(job_settings(STUDY, "sft")),
        source=source_fingerprint("pcqc.jobs.sft"),
    message:
        "Shared SFT: actor and patient"
    shell:
        pcqc(f"sft {STUDY_ARGUMENT}", LAUNCHER)
