rule data:
    output:
        PATHS.data / "manifest.json",
        PATHS.train_cases,
        PATHS.conversations,
        PATHS.world,
        [PATHS.cases(name) for name in STUDY.benchmarks],
    log:
        LOGS / "data.log",
    params:
        settings=settings("clinic", "benchmarks", "protocol"),
        source=source("data_prep.clinic.build"),
    message:
        "Cases and SFT conversations of the clinic"
    shell:
        pcqc(f"clinic {STUDY_ARGUMENT}")
