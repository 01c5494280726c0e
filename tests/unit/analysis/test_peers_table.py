"""Credits are compared at their best learning rates, PCQC and GRPO on every base model."""

from dataclasses import replace

import pandas as pd

from analysis.claims import compared
from analysis.tables import peers
from pcqc.settings.peer_rates import with_rates

RATE = 0.5
COPIES = {  # what stands for each entry
    "shared_sft": "shared_sft",
    "grpo": "terminal_only",
    "pcqc": "pcqc",
    "c3": "executed_local",
    "grpo_rate_0_5": "grpo",
    "pcqc_rate_0_5": "terminal_only",
    "c3_rate_0_5": "same_state_q1",
}


def at_two_rates(collected):
    """Outcomes of a study's methods as those of compared credits at two learning rates."""
    methods = collected.study.methods
    c3 = replace(methods["c3"], runs=methods["pcqc"].runs)
    study = replace(collected.study, peer_rates=(RATE,), methods={**methods, "c3": c3})
    study = with_rates(study)
    methods = {
        name: replace(study.methods[name], role="method", runs=collected.study.methods[like].runs)
        for name, like in COPIES.items()
    }
    frames = [
        pd.concat(frame[frame["method"] == like].assign(method=n) for n, like in COPIES.items())
        for frame in (collected.predictions, collected.updates)
    ]
    records = {
        (name, run): collected.records[like, run]
        for name, like in COPIES.items()
        for run in methods[name].runs
    }
    return study, replace(
        collected,
        study=replace(study, methods={**study.methods, **methods}),
        predictions=frames[0],
        updates=frames[1],
        records=records,
    )


def test_pcqc_is_set_against_grpo_at_its_better_rate_on_every_base_model(collected, monkeypatch):
    """The second of three base models has no GRPO at that rate."""
    worse = collected.predictions.copy()
    worse.loc[worse["method"] == "pcqc", "correct"] = False
    study, runs = at_two_rates(collected)
    _, second = at_two_rates(replace(collected, predictions=worse))
    others = [replace(study, name=name) for name in ("fewer", "second")]
    known = {"first": runs, "second": second, "fewer": second.only(["shared_sft", "pcqc"])}
    monkeypatch.setattr(peers, "peer_runs", lambda one: known[one.name])
    monkeypatch.setattr(peers, "replicates", lambda one: others)
    note = peers.build(replace(study, name="first")).notes[-1]
    both = replace(runs, others=(second,))
    effect = compared(both, "pcqc", "grpo_rate_0_5", [*collected.benchmarks], "accuracy").effect
    first, other = effect.by_base.values()
    assert other < first - 20
    assert note.startswith("PCQC over GRPO, rate 0.5: ")
    assert " (base models 1 and 3). These rates are the best on the first" in note
    said = note.replace("−", "-")
    assert all(f"{d:+.2f}" in said for d in (effect.difference, first, other))
