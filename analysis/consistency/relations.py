"""Every relation between the paper's numbers that could fail; a test makes each of them fail."""

from collections.abc import Iterator

import numpy as np

from analysis.consistency.checks import (
    HALF,
    Check,
    derived,
    mean,
    minus,
    one_of_three,
    reduction,
    rounds,
    three_runs,
    whole,
)
from analysis.published import PairedRow, Published
from analysis.recovery import discordant_counts, printed, rebuilt_outcomes, recovered_counts
from analysis.statistics.estimates import Estimate, average_over_benchmarks, over_runs
from analysis.statistics.paired import paired_comparison


def averages(paper: Published) -> Iterator[Check]:
    """Unweighted means over benchmarks."""
    tables = {
        "main_accuracy": (2, paper.by_benchmark("main_accuracy")),
        "inquiry_turns": (3, paper.by_benchmark("inquiry_turns")),
        "question_supervision": (2, paper.by_benchmark("question_supervision", "accuracy")),
    }
    for table, (digits, rows) in tables.items():
        for method, row in rows.items():
            *inputs, result = (value.mean for value in row.values())
            where = f"{paper.methods[method]}: average over benchmarks"
            yield derived(table, where, mean, inputs, result, (digits, digits))
    for metric, digits in (("accuracy", 2), ("turns", 3)):
        for method, row in paper.tables["same_state_q1"][metric].items():
            *inputs, result = row.values()
            where = f"{paper.methods[method]}: mean {metric}"
            yield derived("same_state_q1", where, mean, inputs, result, (digits, digits))


def whole_cases(paper: Published) -> Iterator[Check]:
    """Accuracies are whole numbers of cases, in one run or in three; run by run where printed."""
    control = {"same_state_q1": paper.tables["same_state_q1"]["accuracy"]["same_state_q1"]}
    rows = [("main_accuracy", *item) for item in paper.by_benchmark("main_accuracy").items()]
    supervised = paper.by_benchmark("question_supervision", "accuracy")
    rows += [("question_supervision", *item) for item in supervised.items()]
    rows += [
        ("same_state_q1", method, {name: Estimate(value, None, 1) for name, value in row.items()})
        for method, row in control.items()
    ]
    for table, method, row in rows:
        for name, benchmark in paper.benchmarks.items():
            where = f"{paper.methods[method]} on {benchmark.title}"
            if method == "pcqc" or name not in row:
                continue
            if row[name].sd is None:
                yield whole(table, where, row[name].mean, benchmark.cases)
            else:
                yield three_runs(table, where, row[name], benchmark.cases)
    for name, benchmark in paper.benchmarks.items():
        for run, percent in zip("ABC", paper.pcqc_runs[name].runs, strict=True):
            yield whole("pcqc_runs", f"run {run} on {benchmark.title}", percent, benchmark.cases)


def whole_turns(paper: Published) -> Iterator[Check]:
    """Q/ep. is a whole number of turns, where so few consultations leave printed gaps."""
    single = paper.tables["same_state_q1"]["turns"]
    tables = {
        "inquiry_turns": paper.by_benchmark("inquiry_turns"),
        "question_supervision": paper.by_benchmark("question_supervision", "turns"),
        "same_state_q1": {
            method: {name: Estimate(value, None, 1) for name, value in row.items()}
            for method, row in single.items()
        },
    }
    for table, rows in tables.items():
        for method, row in rows.items():
            for name in [n for n in row if n in paper.benchmarks]:
                consultations = row[name].runs * paper.benchmarks[name].cases
                if consultations < 1000:  # else every number with three decimals is one
                    exact = round(row[name].mean * consultations) / consultations
                    where = f"{paper.methods[method]} on {paper.benchmarks[name].title}: turns"
                    yield rounds(table, where, row[name].mean, exact, 3)


def pcqc_runs(paper: Published) -> Iterator[Check]:
    """PCQC's means and deviations from its runs' whole cases, and the same in other tables."""
    exact = {
        name: [100 * round(p * b.cases / 100) / b.cases for p in paper.pcqc_runs[name].runs]
        for name, b in paper.benchmarks.items()
    }
    scopes = {name: [name] for name in paper.benchmarks}
    scopes |= {"mean_of_primary": paper.primary, "mean_of_all": list(paper.benchmarks)}
    for key, names in scopes.items():
        values, row = [exact[name] for name in names], paper.pcqc_runs[key]
        for run, percent, value in zip("ABC", row.runs, np.mean(values, axis=0), strict=True):
            if len(names) > 1:
                yield rounds("pcqc_runs", f"{key}: run {run}", percent, float(value), 2)
        estimate = average_over_benchmarks(values) if len(names) > 1 else over_runs(values[0])
        yield rounds("pcqc_runs", f"{key}: mean", row.mean, estimate.mean, 2)
        yield rounds("pcqc_runs", f"{key}: sample SD", row.sd, estimate.sd, 2)
    for table, path, average in (
        ("main_accuracy", ("main_accuracy",), None),
        ("question_supervision", ("question_supervision", "accuracy"), "mean_of_primary"),
    ):
        for name, value in paper.by_benchmark(*path)["pcqc"].items():
            if row := paper.pcqc_runs.get(average if name == "average" else name):
                same = (value.mean, value.sd) == (row.mean, row.sd)
                yield Check(table, f"PCQC on {name}: mean and SD as in pcqc_runs", same)


def same_checkpoints(paper: Published) -> Iterator[Check]:
    """Numbers of one checkpoint that several tables print."""
    first = paper.tables["same_state_q1"]
    turns = paper.by_benchmark("inquiry_turns")["pcqc"]
    for name, value in paper.by_benchmark("question_supervision", "turns")["pcqc"].items():
        yield Check("question_supervision", f"PCQC on {name}: turns", value == turns[name])
    for name in paper.benchmarks:
        same = first["accuracy"]["pcqc"][name] == paper.pcqc_runs[name].runs[0]
        yield Check("same_state_q1", f"PCQC on {name}: accuracy of run A", same)
        where = f"PCQC run A on {name}: Q/ep."
        yield one_of_three("same_state_q1", where, turns[name], first["turns"]["pcqc"][name])
    main = paper.by_benchmark("main_accuracy")
    for row in paper.paired:
        if row.minuend == "pcqc" and row.subtrahend in main:
            cases = paper.benchmarks[row.benchmark].cases
            accuracy = paper.pcqc_runs[row.benchmark].runs[0] - row.gain
            where = f"{title(paper, row)}: the rival's checkpoint ({accuracy:.2f})"
            estimate, count = main[row.subtrahend][row.benchmark], round(accuracy * cases / 100)
            yield three_runs("paired", where, estimate, cases, count)
    supervised = paper.by_benchmark("question_supervision", "accuracy")
    local, terminal = (supervised[m]["medqa"].mean for m in ("executed_local", "terminal_only"))
    run_a = paper.pcqc_runs["medqa"].runs[0]
    for minuend, subtrahend, inputs in (
        ("pcqc", "executed_local", (run_a, local)),
        ("executed_local", "terminal_only", (local, terminal)),
    ):
        gain = paper.gain(minuend, subtrahend, "medqa")
        where = f"{minuend} − {subtrahend} on MedQA"
        yield derived("paired", where, minus, inputs, gain, (2, 2))


def paired(paper: Published) -> Iterator[Check]:
    """Gain, p and interval of each row from whole discordant counts."""
    for row in paper.paired:
        cases, where = paper.benchmarks[row.benchmark].cases, title(paper, row)
        try:
            found = discordant_counts(row, cases)
        except ValueError:  # the gain is no whole number of cases
            found = ()
        text = f"{where}: {row.gain:+.2f} and p {row.p} from whole counts"
        if not found:
            yield Check("paired", text, False)
            continue
        ours = paired_comparison(*rebuilt_outcomes(recovered_counts(row, cases), cases))
        yield Check("paired", text, printed(ours.p, row.p) == row.p)
        # The ends are whole cases, and the percentile's Monte Carlo error can move each by one.
        far = max(abs(row.low - ours.low), abs(row.high - ours.high))
        again = f"[{ours.low:+.2f}, {ours.high:+.2f}], printed [{row.low:+.2f}, {row.high:+.2f}]"
        yield Check("paired", f"{where}: {again}", far <= 100 / cases + HALF * 0.01)


def title(paper: Published, row: PairedRow) -> str:
    methods = f"{paper.methods[row.minuend]} − {paper.methods[row.subtrahend]}"
    return f"{methods} on {paper.benchmarks[row.benchmark].title}"


def length_and_cost(paper: Published) -> Iterator[Check]:
    """Token reductions; trajectories from updates, cases and groups; the same checkpoints."""
    length, cost, settings = (
        paper.tables[name] for name in ("generation_length", "training_cost", "training")
    )
    for name, row in length["tokens"].items():
        inputs, result = (row["grpo"], row["pcqc"]), length["reduction"][name]
        yield derived("generation_length", name, reduction, inputs, result, (1, 1))
        exact = length["in_prose"]["pcqc"][name]
        yield rounds("generation_length", f"{name}: PCQC in prose", row["pcqc"], exact, 1)
    each = {m: settings["cases_per_update"] * g for m, g in settings["terminal_group"].items()}
    total, updates = cost["pcqc"]["trajectories"], settings["reported_updates"]["pcqc"]
    text = f"PCQC: {total:,} trajectories in {updates} updates of {each['pcqc']}"
    yield Check("training_cost", text, total == updates * each["pcqc"])
    total = cost["grpo"]["trajectories"]
    text = f"GRPO: {total:,} trajectories in whole updates of {each['grpo']:,}"
    yield Check("training_cost", text, total % each["grpo"] == 0)
    run_a = (
        paper.pcqc_runs["medqa"].runs[0],
        paper.tables["same_state_q1"]["turns"]["pcqc"]["medqa"],
    )
    same = (cost["pcqc"]["accuracy"], cost["pcqc"]["turns"]) == run_a
    yield Check("training_cost", "PCQC: accuracy and Q/ep. of run A", same)
    inputs, gain = (
        [cost[m]["accuracy"] for m in ("pcqc", "grpo")],
        paper.gain("pcqc", "grpo", "medqa"),
    )
    yield derived("training_cost", "PCQC − GRPO as paired", minus, inputs, gain, (2, 2))
    estimate = paper.by_benchmark("inquiry_turns")["grpo"]["medqa"]
    yield one_of_three("training_cost", "GRPO: Q/ep.", estimate, cost["grpo"]["turns"])


def continuation(paper: Published) -> Iterator[Check]:
    """Numbers of trajectories, whole numbers of successes, and gains."""
    data, table = paper.tables["continuation"], "continuation"
    states, each = data["states"], data["continuations"]
    total = states * data["candidates"] * each
    yield Check(table, f"trajectories: {total:,}", data["trajectories"] == total)
    for rule, success in data["success"].items():
        yield whole(table, rule, success, total if rule == "uniform" else states * each)
    for rule, row in data["gains"].items():
        inputs = (data["success"]["highest_utility"], data["success"][rule])
        where = f"highest utility − {rule}"
        yield derived(table, where, minus, inputs, row["gain"], (2, 2))
    table = "grounded_continuation"
    for row in paper.tables[table]["rows"]:
        name, outcomes = row["comparison"], row["cases"] * each
        yield whole(table, f"{name}: selected", row["selected"], outcomes)
        if not name.endswith("uniform"):
            yield whole(table, f"{name}: comparator", row["comparator"], outcomes)
        inputs = (row["selected"], row["comparator"])
        yield derived(table, f"{name}: gain", minus, inputs, row["gain"], (2, 2))


def sentences(paper: Published) -> Iterator[Check]:
    """Numbers of the running text that restate tables or follow from settings."""
    data, turns = paper.tables["prose"], paper.by_benchmark("inquiry_turns")
    accuracy = paper.by_benchmark("main_accuracy")
    supervised = paper.by_benchmark("question_supervision", "accuracy")
    rivals = {"grpo": accuracy, "atpo": accuracy}
    rivals |= dict.fromkeys(("executed_local", "terminal_only"), supervised)
    for rival, table in rivals.items():
        inputs = [table[method]["average"].mean for method in ("pcqc", rival)]
        result, where = data[f"gain_over_{rival}"], f"gain over {paper.methods[rival]}"
        yield derived("prose", where, minus, inputs, result, (2, 2))
    fewer = {name: (turns["grpo"][name].mean, turns["pcqc"][name].mean) for name in turns["pcqc"]}
    by_size = sorted(paper.benchmarks, key=lambda name: reduction(*fewer[name]))
    places = {"average": "average", "smallest": by_size[0], "largest": by_size[-1]}
    for key, name in places.items():
        result, where = data["turn_reduction"][key], f"turn reduction, {key}"
        yield derived("prose", where, reduction, fewer[name], result, (3, 1))
    inputs = [paper.tables["training_cost"][m]["trajectories"] for m in ("grpo", "pcqc")]
    result = data["trajectory_reduction"]
    yield derived("prose", "trajectory reduction", reduction, inputs, result, (0, 1))
    training = paper.tables["training"]
    cases, updates = training["rl_cases"], training["sft_updates"]
    total = cases["medqa"] + cases["medmcqa"]
    yield Check("training", "RL cases of both sources", cases["total"] == total)
    epoch = training["sft_conversations"] // training["sft_batch"]
    same = (updates["patient"], updates["actor"]) == (epoch, 3 * epoch)
    yield Check("training", "SFT: one and three epochs of whole batches", same)


RELATIONS = (
    averages,
    whole_cases,
    whole_turns,
    pcqc_runs,
    same_checkpoints,
    paired,
    length_and_cost,
    continuation,
    sentences,
)


def every(paper: Published) -> list[Check]:
    """All relations that the paper's tables and sentences imply."""
    return [check for relation in RELATIONS for check in relation(paper)]
