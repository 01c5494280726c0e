"""Two runs against each other: what they were made from, and their accuracy case by case."""

from pathlib import Path
from typing import Any

from tabulate import tabulate

from pcqc_base.errors import UserError, few
from pcqc_study.explain import about, in_words
from pcqc_study.fingerprint import word
from pcqc_study.paired import compare
from pcqc_study.runs import Run, first_run, load

MOST = 3  # modules or inputs that are named; the rest is counted
COLUMNS = ("cases", "A (%)", "B (%)", "A − B (pp)", "95% interval", "only A", "only B", "McNemar p")


def diff(a: str, b: str) -> dict[str, Any]:
    """What sets two runs apart.

    Args:
        a, b: `STUDY/METHOD/RUN`; without `RUN` the method's first; or a Parquet file of
            predictions, of which only the accuracy is compared.

    Returns:
        `a` and `b`: what each is; `differing`: see `Fingerprint.differences`, empty where a side
        is a file; `accuracy`: benchmark -> the row of `compare`.

    Raises:
        UserError: no such run, or they were not evaluated on the same cases.
    """
    sides = {"a": _side(a), "b": _side(b)}
    data: dict[str, Any] = {key: _named(side) for key, side in sides.items()}
    both = [side.fingerprint for side in sides.values() if isinstance(side, Run)]
    data["differing"] = both[0].differences(both[1]) if len(both) == 2 else {}
    rows = compare(*sides.values())
    data["accuracy"] = rows.astype(object).where(rows.notna(), None).to_dict("index")
    return data


def told(data: dict[str, Any]) -> str:
    """What `diff` returned, in lines."""
    lines = []
    for key in ("a", "b"):
        side = data[key]
        words = f", {in_words(side)}" if "commit" in side else ""
        lines.append(f"{key.upper()}: {side['name']}{words}")
    rows = [
        (
            name,
            row["cases"],
            f"{row['accuracy_a']:.2f}",
            f"{row['accuracy_b']:.2f}",
            f"{row['gain']:+.2f}",
            f"[{row['low']:+.2f}, {row['high']:+.2f}]",
            row["only_a"],
            row["only_b"],
            "" if row["p"] is None else f"{row['p']:.2g}",
        )
        for name, row in data["accuracy"].items()
    ]
    right = ["left", *["right"] * len(COLUMNS)]
    table = tabulate(rows, ["right diagnoses", *COLUMNS], disable_numparse=True, colalign=right)
    note = "Intervals: resamples of the cases, both runs' outcomes together; one run of each."
    parts = ["\n".join(lines), *_differing(data["differing"]), f"{table}\n{note}"]
    return "\n\n".join(parts)


def _differing(differing: dict[str, dict]) -> list[str]:
    """Settings, source and inputs in which two fingerprints differ, in lines."""
    if not differing:
        return []
    rows = [(name, word(a), word(b)) for name, (a, b) in differing["settings"].items()]
    widths = [None, 40, 40]
    table = tabulate(rows, ("setting", "A", "B"), disable_numparse=True, maxcolwidths=widths)
    lines = [table if rows else "The settings are the same."]
    for kind, text in (("modules", "source"), ("inputs", "what it was made from")):
        if names := list(differing[kind]):
            lines.append(f"Differing {text}: {few(names, MOST)}.")
    return lines


def _side(text: str) -> Run | Path:
    if text.endswith(".parquet"):
        return Path(text)
    study, _, rest = text.partition("/")
    method, _, run = rest.partition("/")
    if not method:
        raise UserError(f"'{text}': write STUDY/METHOD/RUN, such as clinic/pcqc/A")
    results = Path("results") / study
    if not results.is_dir():
        raise UserError(
            f"study '{study}' has no results here yet; `make results STUDY={study}` makes them"
        )
    return load(results, method, run or first_run(results, method))


def _named(side: Run | Path) -> dict[str, Any]:
    if isinstance(side, Path):
        return {"name": str(side)}
    manifest = side.training or side.evaluation
    return {"name": str(side), "update": side.evaluation["update"], **about(manifest)}
