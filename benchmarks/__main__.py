"""Run the benchmarks, one after another, and write their findings as a table.

    python -m benchmarks

Writes results/benchmarks.json, with all details, and results/benchmarks.md. Exits with 1 if a bound
is missed or a benchmark fails.
"""

import importlib.metadata
import json
import os
import subprocess
import sys
from pathlib import Path

from benchmarks.measure import measured_on
from pcqc_base.system.checkout import ROOT
from pcqc_base.system.files import write_atomic, write_json
from pcqc_base.system.machine import machine
from pcqc_gpu.timed_updates import gpu_name

BENCHMARKS = ("pcqc_cost", "rollouts", "update")
RESULT = Path("results") / "benchmarks.json"


def run_one(name: str) -> dict:
    """What a benchmark prints, run in a process of one thread; `failed` where it prints nothing."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    command = [sys.executable, "-m", f"benchmarks.{name}"]
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
    lines = [
        measured_on(record["machine"]),
        "",
        "| benchmark | what | median | quartiles | asked | holds |",
        "|---|---|---|---|---|---|",
    ]
    for name, result in sorted(record["benchmarks"].items()):
        if "failed" in result:
            lines.append(f"| {name} | failed: {result['failed']} | | | | no |")
        for finding in result["findings"]:
            low, median, high = (_number(finding["value"][n]) for n in ("low", "median", "high"))
            least, holds = finding["least"], finding["holds"]
            cells = [name, finding["what"], f"{median} {finding['unit']}", f"{low} to {high}"]
            cells.append("" if least is None else f"at least {_number(least)}")
            cells.append({True: "yes", False: "no", None: ""}[holds])
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    """Three significant digits, or all digits of a larger whole number."""
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def main() -> int:
    here = {"cores": os.cpu_count(), "gpu": gpu_name(), "trl": importlib.metadata.version("trl")}
    record: dict = {"machine": machine() | here, "benchmarks": {}}
    for name in BENCHMARKS:
        print(f"{name} ...", file=sys.stderr, flush=True)
        record["benchmarks"][name] = run_one(name)
        write_json(RESULT, record)
        write_atomic(RESULT.with_suffix(".md"), table(record))
    print(table(record))
    results = record["benchmarks"].values()
    missed = any("failed" in r or any(f["holds"] is False for f in r["findings"]) for r in results)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
