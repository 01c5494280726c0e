"""Learning rates at which published credits are compared: one grid, the same for all."""

import re
from dataclasses import replace

from pcqc.settings.method import Method
from pcqc.settings.study import Study

RIVALS = ("grpo", "pcqc")  # what published credits are compared with


def with_rates(study: Study) -> Study:
    """The study with an entry for each compared method at each of its `peer_rates`.

    A rate that the method has anyway needs no entry. A rate is tried in the method's first run.
    """
    entries = {
        _name(name, rate): _at(study.methods[name], rate)
        for name in _compared(study)
        for rate in study.peer_rates
        if rate != study.rl_of(study.methods[name]).learning_rate
    }
    return replace(study, methods={**study.methods, **entries})


def at_rates(study: Study, method: str) -> list[str]:
    """A compared method, and its entries at the other rates."""
    names = [method, *(_name(method, rate) for rate in study.peer_rates)]
    return [name for name in names if name in study.methods]


def _compared(study: Study) -> list[str]:
    return [n for n, m in study.methods.items() if m.runs and (n in RIVALS or m.role == "peer")]


def _name(method: str, rate: float) -> str:
    """`pcqc_rate_0_0005`."""
    return re.sub(r"[^A-Za-z0-9]+", "_", f"{method}_rate_{rate:g}")


def _at(method: Method, rate: float) -> Method:
    title = f"{method.title}, rate {rate:g}"
    rl = {**method.rl, "learning_rate": rate}
    return replace(method, title=title, role="rate", runs=method.runs[:1], rl=rl)
