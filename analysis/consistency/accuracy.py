"""Relations between the paper's accuracies and turns: averages, runs, controls, paired rows."""

from collections.abc import Iterator

import numpy as np

from analysis.consistency.checks import (
    Check,
    derived,
    difference,
    equal,
    mean,
    one_of_three,
    three_runs,
    whole,
)
from analysis.published import PairedRow, Published
from analysis.recovery import (
    discordant_counts,
    printed,
    rebuilt_outcomes,
    recovered_counts,
)
from analysis.statistics import Estimate, average_over_benchmarks, over_runs, paired_comparison

HALF_POINT = 0.0051  # half of the last printed digit of an interval's ends


def averages(paper: Published) -> Iterator[Check]:
    """The last column of the two main tables."""
    for table, digits in (("main_accuracy", 2), ("inquiry_turns", 3)):
        for method, row in paper.by_benchmark(table).items():
            inputs = [row[name].mean for name in paper.benchmarks]
            relation = f"{paper.methods[method]}: average over benchmarks"
            result = row["average"].mean
            yield derived(table, relation, mean, inputs, result, (digits, digits))


def runs_behind_means(paper: Published) -> Iterator[Check]:
    """Accuracies as whole numbers of cases, in one run or in three."""
    for method, row in paper.by_benchmark("main_accuracy").items():
        for name, benchmark in paper.benchmarks.items():
            where = f"{paper.methods[method]} on {benchmark.title}"
            estimate = row[name]
            if estimate.sd is None:
                relation = f"{where}: whole number of cases"
                yield whole("main_accuracy", relation, estimate.mean, benchmark.cases)
            else:
                relation = f"{where}: mean and SD of three whole numbers of cases"
                yield three_runs("main_accuracy", relation, estimate, benchmark.cases)


def whole_turns(paper: Published) -> Iterator[Check]:
    """Q/ep. as whole numbers of turns, over one run's cases or three runs'."""
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
                exact = round(row[name].mean * consultations) / consultations
                where = f"{paper.methods[method]} on {paper.benchmarks[name].title}"
                relation = f"{where}: whole number of turns in {consultations:,} consultations"
                yield equal(table, relation, row[name].mean, exact, 3)


def pcqc_runs(paper: Published) -> Iterator[Check]:
    """Whole cases by run; every mean and SD from them; the main table's means and SDs again."""
    table, exact = "pcqc_runs", _exact_runs(paper)
    for name, benchmark in paper.benchmarks.items():
        for run, percent in zip("ABC", paper.pcqc_runs[name].runs, strict=True):
            relation = f"run {run} on {benchmark.title}: whole number of cases"
            yield whole(table, relation, percent, benchmark.cases)
        main = paper.by_benchmark("main_accuracy")["pcqc"][name]
        estimate = over_runs(exact[name])
        yield equal(
            "main_accuracy", f"PCQC on {name}: mean of its runs", main.mean, estimate.mean, 2
        )
        yield equal("main_accuracy", f"PCQC on {name}: SD of its runs", main.sd, estimate.sd, 2)
    scopes = {name: [name] for name in paper.benchmarks}
    scopes |= {"mean_of_primary": paper.primary, "mean_of_all": list(paper.benchmarks)}
    for key, names in scopes.items():
        values, row = [exact[name] for name in names], paper.pcqc_runs[key]
        for run, percent, value in zip("ABC", row.runs, np.mean(values, axis=0), strict=True):
            if len(names) > 1:
                yield equal(table, f"{key}: run {run}", percent, float(value), 2)
        estimate = average_over_benchmarks(values)
        yield equal(table, f"{key}: mean", row.mean, estimate.mean, 2)
        yield equal(table, f"{key}: sample SD", row.sd, estimate.sd, 2)


def _exact_runs(paper: Published) -> dict[str, list[float]]:
    """Benchmark -> PCQC's accuracy by run, in percent, from whole numbers of cases."""
    return {
        name: [100 * round(p * b.cases / 100) / b.cases for p in paper.pcqc_runs[name].runs]
        for name, b in paper.benchmarks.items()
    }


def question_supervision(paper: Published) -> Iterator[Check]:
    """Averages; whole cases of the controls; PCQC's row as in the main tables."""
    table = "question_supervision"
    accuracy = paper.by_benchmark(table, "accuracy")
    names = [name for name in accuracy["pcqc"] if name != "average"]
    for method, row in accuracy.items():
        inputs = [row[name].mean for name in names]
        relation = f"{paper.methods[method]}: average over benchmarks"
        yield derived(table, relation, mean, inputs, row["average"].mean, (2, 2))
        for name in names if row["average"].sd is None else ():
            relation = f"{paper.methods[method]} on {name}: whole number of cases"
            yield whole(table, relation, row[name].mean, paper.benchmarks[name].cases)
    row = paper.pcqc_runs["mean_of_primary"]
    average = accuracy["pcqc"]["average"]
    yield equal(table, "PCQC: average as in pcqc_runs", average.mean, row.mean, 2)
    yield equal(table, "PCQC: SD of the average as in pcqc_runs", average.sd, row.sd, 2)
    for key, other, digits in (("accuracy", "main_accuracy", 2), ("turns", "inquiry_turns", 3)):
        ours, main = paper.by_benchmark(table, key)["pcqc"], paper.by_benchmark(other)["pcqc"]
        for name in names:
            relation = f"PCQC on {name}: {key} as in {other}"
            yield equal(table, relation, ours[name].mean, main[name].mean, digits)
            yield equal(table, f"{relation} (SD)", ours[name].sd, main[name].sd, digits)


def same_state_q1(paper: Published) -> Iterator[Check]:
    """Means, whole cases, and PCQC's column as run A; run A among the three runs' turns."""
    table = "same_state_q1"
    data = paper.tables[table]
    for metric, digits in (("accuracy", 2), ("turns", 3)):
        for method, row in data[metric].items():
            inputs = [row[name] for name in paper.benchmarks]
            relation = f"{paper.methods[method]}: mean {metric}"
            yield derived(table, relation, mean, inputs, row["mean"], (digits, digits))
    for name, benchmark in paper.benchmarks.items():
        control = data["accuracy"]["same_state_q1"][name]
        relation = f"Same-State-Q1 on {benchmark.title}: whole number of cases"
        yield whole(table, relation, control, benchmark.cases)
        run_a = paper.pcqc_runs[name].runs[0]
        relation = f"PCQC on {benchmark.title}: run A of pcqc_runs"
        yield equal(table, relation, data["accuracy"]["pcqc"][name], run_a, 2)
        turns = paper.by_benchmark("inquiry_turns")["pcqc"][name]
        relation = f"PCQC run A on {benchmark.title}: Q/ep. possible with the three-run mean and SD"
        yield one_of_three(table, relation, turns, data["turns"]["pcqc"][name], 3)


def paired(paper: Published) -> Iterator[Check]:
    """Gain, p and interval of each row from its recovered discordant counts."""
    for row in paper.paired:
        cases = paper.benchmarks[row.benchmark].cases
        where = _title(paper, row)
        found = discordant_counts(row, cases)
        counts = recovered_counts(row, cases)
        ours = paired_comparison(*rebuilt_outcomes(counts, cases))
        shown = f"{len(found)} pairs of counts; {counts[0]} / {counts[1]}"
        text = f"{row.gain:+.2f}, p {row.p}"
        agrees = bool(found) and printed(ours.p, row.p) == row.p
        yield Check("paired", f"{where}: gain and p from whole counts", text, shown, agrees)
        interval = f"[{row.low:+.2f}, {row.high:+.2f}]"
        again = f"[{ours.low:+.2f}, {ours.high:+.2f}]"
        # The ends are whole cases, and the percentile's Monte Carlo error can move each by one.
        tolerance = 100 / cases + HALF_POINT
        agrees = max(abs(row.low - ours.low), abs(row.high - ours.high)) <= tolerance
        yield Check("paired", f"{where}: interval, within one case", interval, again, agrees)


def _title(paper: Published, row: PairedRow) -> str:
    methods = f"{paper.methods[row.minuend]} − {paper.methods[row.subtrahend]}"
    return f"{methods} on {paper.benchmarks[row.benchmark].title}"


def fixed_checkpoints(paper: Published) -> Iterator[Check]:
    """Accuracies that the gains imply, against every table that prints the same checkpoint."""
    implied = {}
    for row in paper.paired:
        if row.minuend == "pcqc":
            run_a = paper.pcqc_runs[row.benchmark].runs[0]
            implied[row.subtrahend, row.benchmark] = run_a - row.gain
    supervision = paper.by_benchmark("question_supervision", "accuracy")
    medqa = supervision["executed_local"]["medqa"].mean
    relation = "Executed-local on MedQA: PCQC run A minus its gain"
    gain = paper.gain("pcqc", "executed_local", "medqa")
    runs = (paper.pcqc_runs["medqa"].runs[0], gain)
    yield derived("question_supervision", relation, difference, runs, medqa, (2, 2))
    gain = paper.gain("executed_local", "terminal_only", "medqa")
    inputs = (medqa, supervision["terminal_only"]["medqa"].mean)
    yield derived(
        "paired", "Executed-local − Terminal-only on MedQA", difference, inputs, gain, (2, 2)
    )
    main = paper.by_benchmark("main_accuracy")
    for (method, name), accuracy in implied.items():
        if method in main:
            cases = paper.benchmarks[name].cases
            title = f"{paper.methods[method]} on {paper.benchmarks[name].title}"
            relation = f"{title}: the fixed checkpoint ({accuracy:.2f}) as one of the three runs"
            count = round(accuracy * cases / 100)
            yield three_runs("paired", relation, main[method][name], cases, count)
