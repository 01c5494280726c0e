"""Run every benchmark, one after another, and write what was found as a table.

    python -m benchmarks [NAME ...] [--docs]

Writes results/benchmarks.json, with all details, and results/benchmarks.md; `--docs` keeps the
findings in docs/ too. Every module of this folder that measures something is run in a process of
its own. Exits with 1 if a bound is missed or a benchmark fails.
"""

import argparse
import json
import os
import pkgutil
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import benchmarks
from benchmarks.measure import machine
from pcqc.study import ROOT
from pcqc.system.files import read_json, write_atomic, write_json

SHARED = ("__main__", "measure", "talkers", "workers")
# Sizes for a run of all; each module's own are larger.
REDUCED = {
    "bootstrap": ["--studies", "1000"],
    "overlap": ["--training", "3000", "--evaluation", "400"],
    "update": ["--rounds", "8"],
}
RESULT = Path("results") / "benchmarks.json"
RECORD = ROOT / "docs" / "benchmarks.json"
PAGE = ROOT / "docs" / "benchmarks.md"
MARKS = re.compile(r"(<!-- measured -->\n).*?(<!-- end -->)", re.DOTALL)


def names() -> list[str]:
    """The benchmarks: modules of this folder, less those that they share."""
    return [m.name for m in pkgutil.iter_modules(benchmarks.__path__) if m.name not in SHARED]


def run_one(name: str) -> dict:
    """What a benchmark prints, run in a process of one thread; `failed` where it prints nothing."""
    command = [sys.executable, "-m", f"benchmarks.{name}", *REDUCED.get(name, [])]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment)
    try:
        return json.loads(done.stdout)
    except json.JSONDecodeError:
        return {"findings": [], "failed": f"exit status {done.returncode}, no figures"}


def table(record: dict) -> str:
    """Machine and findings in Markdown.

    Args:
        record: `machine`, and `benchmarks`: name -> what it printed.
    """
    told = ", ".join(f"{name} {value}" for name, value in sorted(record["machine"].items()))
    lines = [
        f"Measured on: {told}.",
        "",
        "| benchmark | what | median | quartiles | asked | holds |",
    ]
    lines.append("|---|---|---|---|---|---|")
    for name, result in sorted(record["benchmarks"].items()):
        if "failed" in result:
            lines.append(f"| {name} | failed: {result['failed']} | | | | no |")
        lines += [_line(name, finding) for finding in result["findings"]]
    return "\n".join(lines) + "\n"


def _line(name: str, finding: dict) -> str:
    value, quartiles = finding["value"], ""
    if isinstance(value, dict):
        quartiles = f"{_number(value['low'])} to {_number(value['high'])}"
        value = value["median"]
    bounds = [("at least", finding["least"]), ("at most", finding["most"])]
    asked = ", ".join(f"{word} {_number(bound)}" for word, bound in bounds if bound is not None)
    holds = {True: "yes", False: "no", None: ""}[finding["holds"]]
    middle = f"{_number(value)} {finding['unit']}"
    return f"| {name} | {finding['what']} | {middle} | {quartiles} | {asked} | {holds} |"


def _number(value: float) -> str:
    """Three significant digits, and never fewer than a whole number has."""
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def keep(record: dict, page: Path = PAGE, to: Path = RECORD) -> None:
    """Copy machine, findings and table into the documentation."""
    found = {
        name: {key: result[key] for key in ("findings", "failed") if key in result}
        for name, result in record["benchmarks"].items()
    }
    kept = {"machine": record["machine"], "benchmarks": found}
    write_json(to, kept)
    text = page.read_text(encoding="utf-8")
    write_atomic(page, MARKS.sub(lambda m: f"{m[1]}\n{table(kept)}\n{m[2]}", text))


def missed(record: dict) -> bool:
    """Whether a benchmark failed or a bound was missed."""
    results = record["benchmarks"].values()
    return any("failed" in r or any(f["holds"] is False for f in r["findings"]) for r in results)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(names())}")
    parser.add_argument("--docs", action="store_true", help="keep the findings in docs/ too")
    parsed = parser.parse_args(arguments)
    if unknown := sorted({*parsed.names} - {*names()}):
        parser.error(f"no benchmark {', '.join(unknown)}; there are {', '.join(names())}")
    record = {"machine": machine(), "benchmarks": {}}
    # A part of them replaces its part of what stands there.
    if parsed.names and RESULT.exists():
        record["benchmarks"] = read_json(RESULT)["benchmarks"]
    for name in parsed.names or names():
        print(f"{name} ...", file=sys.stderr, flush=True)
        record["benchmarks"][name] = run_one(name)
        write_json(RESULT, record)
        write_atomic(RESULT.with_suffix(".md"), table(record))
    if parsed.docs:
        keep(record)
    print(table(record))
    return 1 if missed(record) else 0


if __name__ == "__main__":
    sys.exit(main())
