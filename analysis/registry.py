"""Which tables or figures there are, and which of them a study can fill."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Literal

from analysis.notices import captioned
from pcqc.errors import UserError
from pcqc.study import Study
from pcqc.study.settings import nearest
from pcqc.system.files import write_atomic

if TYPE_CHECKING:
    from analysis.collected import Collected


@dataclass(frozen=True)
class Entry:
    """What a table or figure needs of a study, and whether the paper has it too.

    Attributes:
        methods: those that it needs.
        setting: a group of the study's settings that it needs.
        trained: whether it needs a method that is trained.
        paper: whether its module also builds the published counterpart.
        shows: which runs: the study's `own`, those under all base models `pooled` as one study's
            (`Collected.pooled`), or `all`, which its module tells apart.
    """

    methods: tuple[str, ...] = ()
    setting: str = ""
    trained: bool = False
    paper: bool = False
    shows: Literal["own", "pooled", "all"] = "own"

    def missing(self, study: Study) -> list[str]:
        """What the study lacks for it, in words."""
        runs = {name for name, method in study.methods.items() if method.runs}
        lacking = [f"the method '{name}'" for name in self.methods if name not in runs]
        if self.setting and not getattr(study, self.setting):
            lacking.append(f"the settings '{self.setting}'")
        learned = (study.methods[name] for name in runs)
        if self.trained and not any(m.kind == "rl" and not m.on_demand for m in learned):
            lacking.append("a method that is trained")
        return lacking


@dataclass(frozen=True)
class Registry:
    """All tables, or all figures.

    Attributes:
        kind: `table` or `figure`; files go into the folder of that name with an s.
        forms: file types, one file each.
        beside: what the name of a file with the paper's numbers ends in.
        load: imports the module of a name.
    """

    kind: str
    forms: tuple[str, ...]
    beside: str
    load: Callable[[str], ModuleType]
    entries: dict[str, Entry]

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def module(self, name: str) -> ModuleType:
        """The module of a name; UserError with the nearest name where there is none."""
        self._check(name)
        return self.load(name)

    def names(self, study: Study) -> list[str]:
        """Those that the study can fill."""
        return [name for name, entry in self.entries.items() if not entry.missing(study)]

    def chosen(self, study: Study, only: Sequence[str] | None = None) -> list[str]:
        """All that the study can fill, or `only` some.

        Raises:
            UserError: an unknown name, or one that the study cannot fill.
        """
        for name in only or ():
            self._check(name)
            if lacking := self.entries[name].missing(study):
                raise UserError(
                    f"study '{study.name}' cannot fill the {self.kind} '{name}': it needs "
                    f"{' and '.join(lacking)}"
                )
        return list(only or self.names(study))

    def outputs(self, study: Study, folder: Path) -> list[Path]:
        """Every file that is written for a study, below a folder."""
        return [path for name in self.names(study) for path in self.paths(folder, name)]

    def paths(self, folder: Path, name: str) -> list[Path]:
        """The files of one table or figure, with those of the paper's numbers."""
        folder = folder / f"{self.kind}s"
        stems = [name, f"{name}{self.beside}"] if self.entries[name].paper else [name]
        return [folder / f"{stem}.{form}" for stem in stems for form in self.forms]

    def write(self, folder: Path, name: str, contents: Iterable[str | bytes]) -> list[Path]:
        """Write the files of one table or figure, given in the order of `paths`; their paths."""
        paths = self.paths(folder, name)
        for path, content in zip(paths, contents, strict=True):
            write_atomic(path, content)
        return paths

    def captioned(self, study: Study, name: str, text: str) -> str:
        """The caption of one of them, with the base model that it is of where there are several."""
        return captioned(study, text) if self.entries[name].shows == "own" else text

    def shown(self, collected: "Collected", name: str) -> "Collected":
        """What one of them is made from: the study, or the runs under all its base models."""
        return collected.pooled() if self.entries[name].shows == "pooled" else collected

    def _check(self, name: str) -> None:
        if name not in self.entries:
            raise UserError(f"no {self.kind} '{name}'{nearest(name, self.entries)}")
