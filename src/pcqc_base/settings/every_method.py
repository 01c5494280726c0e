"""A method: the settings and answers that every one has, and how its module is found by name."""

import functools
import importlib.util
import pkgutil
import sys
from importlib.metadata import EntryPoints, entry_points
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from pcqc_base.errors import UserError, nearest
from pcqc_base.settings.types import STRICT, Title, Weight, Whole

GROUP = "pcqc.methods"  # of our own modules, and of the entry points of other distributions


@dataclass(frozen=True, config=STRICT)
class Method:
    """An entry of `config/methods.yaml`: settings that every method has; its module adds its own.

    Attributes:
        kind: `rl`, or `sft` for what is not trained by reinforcement learning.
        records: names of the files, beside events and consultations, that its runs write.
        several_steps: whether an update takes several optimiser steps.
    """

    title: Title
    method: str  # module of `pcqc.methods`, or entry point of that group
    role: Literal["method", "control", "ablation", "peer"] = "method"
    kl_coefficient: Weight = 0.001
    updates: Whole = 222
    runs: tuple[str, ...] = ("A", "B", "C")
    # settings of the study's `rl` that this method alone has otherwise; see `pcqc vary`
    rl: dict[str, int | float] = Field(default_factory=dict)

    kind: ClassVar[str] = "rl"
    records: ClassVar[tuple[str, ...]] = ()
    several_steps: ClassVar[bool] = False

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """A setting of its own, which its module declares."""

    @property
    def on_demand(self) -> bool:
        """Whether it is no part of the paper's study: `snakemake all` leaves it out."""
        return self.role in ("ablation", "peer")

    @property
    def needs(self) -> frozenset[str]:
        """Services that its runs are lent; `pcqc.methods.base` lists them."""
        return frozenset()


def method_class(name: str) -> type[Method]:
    """The class of a method by the name of its module: `Pcqc` of `pcqc.methods.pcqc`.

    Raises:
        UserError: nothing of that name is installed.
    """
    try:
        return pkgutil.resolve_name(_address(name))
    except (AttributeError, ModuleNotFoundError, ValueError) as problem:
        package: Any = pkgutil.resolve_name(GROUP)
        own = [module.name for module in pkgutil.iter_modules(package.__path__)]
        known = [n for n in own if hasattr(pkgutil.resolve_name(f"{GROUP}.{n}"), _class(n))]
        known += [entry.name for entry in _entries(tuple(sys.path))]
        raise UserError(f"no method '{name}' ({problem}){nearest(name, known)}") from None


def method_module(name: str) -> str:
    """Dotted name of a method's module, where reading what its runs are made from begins."""
    return _address(name).partition(":")[0]


def _address(name: str) -> str:
    """`module:Class`; our own modules come before those of other distributions."""
    if not (name.isidentifier() and importlib.util.find_spec(f"{GROUP}.{name}")):
        for entry in _entries(tuple(sys.path)).select(name=name):
            return entry.value
    return f"{GROUP}.{name}:{_class(name)}"


@functools.cache
def _entries(path: tuple[str, ...]) -> EntryPoints:
    """Methods of other distributions on Python's path, all of which are looked through for them."""
    return entry_points(group=GROUP)


def _class(module: str) -> str:
    """`same_state` -> `SameState`."""
    return module.title().replace("_", "")
