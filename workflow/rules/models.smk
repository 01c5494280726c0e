if STUDY.synthetic:

    rule base:
        input:
            PATHS.world,
        output:
            PATHS.model("base") / "manifest.json",
        log:
            LOGS / "base.log",
        threads: 2
        params:
            made_from=made_from("pretrain"),
        message:
            "Base model, from scratch"
        shell:
            pcqc(f"pretrain {STUDY_NAME}")

else:

    rule base:
        output:
            [PATHS.model(folder) / "manifest.json" for folder in STUDY.pretrained],
        log:
            LOGS / "base.log",
        params:
            made_from=made_from("models"),
        message:
            "Pretrained models"
        shell:
            pcqc(f"models {STUDY_NAME}")


rule sft:
    input:
        rules.base.output,
        PATHS.conversations,
        INSTRUCTION,
        ancient(DATA_MANIFEST),
    output:
        PATHS.model("actor") / "manifest.json",
        PATHS.model("patient") / "manifest.json",
    log:
        LOGS / "sft.log",
    resources:
        **ON_MODELS,
    params:
        made_from=made_from("sft"),
    message:
        "Shared SFT: actor and patient"
    shell:
        pcqc(f"sft {STUDY_NAME}", LAUNCHER)
