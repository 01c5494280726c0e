"""Relations of the paper's other tables and of its sentences: length, cost, continuations."""

from collections.abc import Iterator

from analysis.consistency.checks import (
    Check,
    derived,
    difference,
    equal,
    one_of_three,
    reduction,
    whole,
)
from analysis.published import Published


def generation_length(paper: Published) -> Iterator[Check]:
    """Reductions, and the prose's further decimals."""
    table = "generation_length"
    data = paper.tables[table]
    for name, row in data["tokens"].items():
        inputs, result = (row["grpo"], row["pcqc"]), data["reduction"][name]
        yield derived(table, f"{name}: reduction", reduction, inputs, result, (1, 1))
        prose = data["in_prose"]["pcqc"][name]
        yield equal(table, f"{name}: PCQC tokens as in prose", row["pcqc"], prose, 1)


def training_cost(paper: Published) -> Iterator[Check]:
    """Trajectories from updates, cases and groups; accuracies and turns of the same checkpoints."""
    table = "training_cost"
    data, settings = paper.tables[table], paper.tables["training"]
    per_update = {
        m: settings["cases_per_update"] * g for m, g in settings["terminal_group"].items()
    }
    exact = settings["reported_updates"]["pcqc"] * per_update["pcqc"]
    yield equal(table, "PCQC: 222 updates x 128 cases x 4", data["pcqc"]["trajectories"], exact, 0)
    updates = data["grpo"]["trajectories"] / per_update["grpo"]
    relation = "GRPO: whole number of updates of 128 cases x 32"
    yield equal(table, relation, round(updates), updates, 0)
    cases = paper.benchmarks["medqa"].cases
    yield whole(table, "GRPO: whole number of MedQA cases", data["grpo"]["accuracy"], cases)
    run_a = paper.pcqc_runs["medqa"].runs[0]
    yield equal(table, "PCQC: accuracy of run A", data["pcqc"]["accuracy"], run_a, 2)
    turns = paper.tables["same_state_q1"]["turns"]["pcqc"]["medqa"]
    yield equal(table, "PCQC: Q/ep. of run A", data["pcqc"]["turns"], turns, 3)
    inputs = (data["pcqc"]["accuracy"], data["grpo"]["accuracy"])
    gain = paper.gain("pcqc", "grpo", "medqa")
    yield derived(table, "PCQC − GRPO as paired", difference, inputs, gain, (2, 2))
    relation = "GRPO: Q/ep. possible with the three-run mean and SD"
    estimate = paper.by_benchmark("inquiry_turns")["grpo"]["medqa"]
    yield one_of_three(table, relation, estimate, data["grpo"]["turns"], 3)


def continuation(paper: Published) -> Iterator[Check]:
    """Numbers of trajectories, whole numbers of successes, and gains."""
    data, table = paper.tables["continuation"], "continuation"
    states, candidates, each = data["states"], data["candidates"], data["continuations"]
    total = states * candidates * each
    yield equal(table, "128 states x 4 candidates x 8", data["trajectories"], total, 0)
    for rule, success in data["success"].items():
        outcomes = total if rule == "uniform" else states * each
        yield whole(table, f"{rule}: whole number of outcomes", success, outcomes)
    best = data["success"]["highest_utility"]
    for rule, row in data["gains"].items():
        inputs = (best, data["success"][rule])
        yield derived(table, f"highest utility − {rule}", difference, inputs, row["gain"], (2, 2))
    for row in paper.tables["grounded_continuation"]["rows"]:
        name, outcomes = row["comparison"], row["cases"] * each
        inputs = (row["selected"], row["comparator"])
        table = "grounded_continuation"
        yield whole(table, f"{name}: selected, whole number", row["selected"], outcomes)
        if not name.endswith("uniform"):
            yield whole(table, f"{name}: comparator, whole number", row["comparator"], outcomes)
        yield derived(table, f"{name}: gain", difference, inputs, row["gain"], (2, 2))


def prose(paper: Published) -> Iterator[Check]:
    """Sentences that restate the tables."""
    data = paper.tables["prose"]
    accuracy, turns = paper.by_benchmark("main_accuracy"), paper.by_benchmark("inquiry_turns")
    supervised = paper.by_benchmark("question_supervision", "accuracy")
    for rival, table in (
        ("grpo", accuracy),
        ("atpo", accuracy),
        ("executed_local", supervised),
        ("terminal_only", supervised),
    ):
        inputs = [table[method]["average"].mean for method in ("pcqc", rival)]
        relation = f"gain over {paper.methods[rival]}"
        yield derived("prose", relation, difference, inputs, data[f"gain_over_{rival}"], (2, 2))
    reductions = {
        name: (turns["grpo"][name].mean, turns["pcqc"][name].mean) for name in turns["pcqc"]
    }
    by_size = sorted(paper.benchmarks, key=lambda name: reduction(*reductions[name]))
    places = {"average": "average", "smallest": by_size[0], "largest": by_size[-1]}
    for key, name in (places | {"icraft_md": "icraft_md"}).items():
        inputs, result = reductions[name], data["turn_reduction"][key]
        yield derived("prose", f"turn reduction, {key}", reduction, inputs, result, (3, 1))
    cost = paper.tables["training_cost"]
    inputs = [cost[method]["trajectories"] for method in ("grpo", "pcqc")]
    result = data["trajectory_reduction"]
    yield derived("prose", "trajectory reduction", reduction, inputs, result, (0, 1))


def training(paper: Published) -> Iterator[Check]:
    """Sums and epochs."""
    data = paper.tables["training"]
    cases = data["rl_cases"]
    total = cases["medqa"] + cases["medmcqa"]
    yield equal("training", "RL cases of both sources", cases["total"], total, 0)
    per_epoch = data["sft_conversations"] // data["sft_batch"]
    updates = data["sft_updates"]
    yield equal("training", "patient: one epoch of whole batches", updates["patient"], per_epoch, 0)
    yield equal(
        "training", "actor: three epochs of whole batches", updates["actor"], 3 * per_epoch, 0
    )
