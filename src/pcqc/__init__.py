"""PCQC: privileged counterfactual question credit for multi-turn medical dialogue.

A finished run as data frames, and two runs against each other:

    import pcqc

    run = pcqc.load("results/clinic", "pcqc", "A")
    run.candidates(), run.metrics(), run.predictions()
    pcqc.compare(run, pcqc.load("results/clinic", "grpo", "A"))
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pcqc_study.paired import compare
    from pcqc_study.runs import Run, load

__all__ = ["Run", "compare", "load"]


def __dir__() -> list[str]:
    """Also what is not imported yet."""
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    """What `pcqc_study` has of these, imported with pandas when it is first asked for."""
    if name in __all__:
        from pcqc_study import paired, runs

        return getattr(paired if name == "compare" else runs, name)
    raise AttributeError(f"module 'pcqc' has no attribute '{name}'")
