"""Digests of source modules: part of a fingerprint, so that an edit makes results anew.

A digest is of what a module does. It is taken of the syntax tree without docstrings, imports and
the words of errors, and of the names that the module imports. So comments, formatting, the order of
imports and an error's text change nothing.
"""

import ast
import functools
import hashlib
import importlib.util
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, cast

from pcqc_base.settings.every_method import GROUP
from pcqc_base.system.checkout import ROOT

_NAMES = (
    *("pcqc", "pcqc_base", "pcqc_clinic", "pcqc_gpu", "pcqc_study", "pcqc_peers", "clinic_env"),
    *("turn_credit", "credit_lab", "data_prep", "analysis"),
)


def _folder(package: str) -> Path:
    """A package's folder in the checkout; where a wheel is installed, that of the installed one."""
    in_checkout = (Path("src"), Path("packages", package, "src"), Path())
    for place in in_checkout:
        if (folder := ROOT / place / package).is_dir():
            return folder
    return Path(importlib.util.find_spec(package).origin).parent


_PACKAGES = {name: _folder(name) for name in _NAMES}
# What decides no number: settings, which fingerprints have by value; files, processes, progress;
# what is logged beside a result; which jobs there are.
SURROUNDINGS = (
    *("pcqc_base", "pcqc.logged", "pcqc_study.study_file", "pcqc_study.job_kinds"),
    *("pcqc_study.graph", "pcqc_study.fingerprint", "pcqc_study.source_digests"),
    "pcqc_study.cli",
)


@functools.cache
def module_digests(
    *modules: str, unused: tuple[str, ...] = (), deciding: bool = True
) -> dict[str, str]:
    """Digest of each project module that `modules` import, directly or not (16 hex digits).

    Imports inside functions count, those for types alone do not. A module's package counts too,
    unless it only lists what it offers. An import of names from a package counts as one of all that
    the package imports.

    Args:
        modules: dotted names to start from.
        unused: modules, with what they hold, that are left out although something imports them.
        deciding: whether modules that decide numbers are wanted, or their `SURROUNDINGS`.
    """
    around = tuple(f"{name}." for name in SURROUNDINGS)
    left_out = tuple(f"{name}." for name in unused) + (around if deciding else ())
    digests: dict[str, str] = {}
    waiting = list(modules)
    while waiting:
        module = waiting.pop()
        if module in digests or f"{module}.".startswith(left_out):
            continue
        if _file(module):
            source = _source(module)
            digests[module] = source.digest
            waiting += source.imports
            package = module.rpartition(".")[0]
            if package and not _source(package).only_lists:
                waiting.append(package)
    return {
        name: digest
        for name, digest in sorted(digests.items())
        if deciding or f"{name}.".startswith(around)
    }


@functools.cache
def _file(module: str) -> Path | None:
    """Where a module of the project, or of a method from another distribution, is."""
    package, _, rest = module.partition(".")
    folder = _PACKAGES.get(package) or _other_packages(tuple(sys.path)).get(package)
    if folder is None:
        return None
    base = folder.joinpath(*rest.split(".")) if rest else folder
    for path in (base / "__init__.py", base.with_suffix(".py")):
        if path.is_file():
            return path
    return None


@functools.cache
def _other_packages(path: tuple[str, ...]) -> dict[str, Path]:
    """Packages of methods from other distributions on Python's path -> where their source is."""
    folders = {}
    named = {entry.module.partition(".")[0] for entry in entry_points(group=GROUP)}
    # Our own packages are where `_PACKAGES` says, whatever else of their name is on the path.
    for package in named - _PACKAGES.keys():
        source = Path(importlib.util.find_spec(package).origin)
        folders[package] = source.parent if source.name == "__init__.py" else source.with_suffix("")
    return folders


@functools.cache
def _source(module: str) -> "_Source":
    return _reduced(_file(module).read_text(encoding="utf-8"))


@functools.cache
def _reduced(text: str) -> "_Source":
    return _Source(text)


def read_again() -> None:
    """Forget what files hold, but not what a text is reduced to, which takes most of the time."""
    for known in (module_digests, _file, _other_packages, _source):
        known.cache_clear()


class _Source:
    """A module's source, reduced to what it does.

    Attributes:
        names: what it imports, as `(module, name, alias)`.
        imports: modules that it may import, and names in them that may be modules.
        digest: made of the syntax tree and the names.
        only_lists: whether it imports what it offers, at once or when it is asked for, and does
            nothing else.
    """

    def __init__(self, text: str):
        self.names: list[tuple[str, str, str]] = []
        self.imports: list[str] = []
        tree = ast.parse(text)
        text = f"{self._dump(tree)} {sorted(set(self.names))}"
        self.digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        self.only_lists = all(map(_lists, tree.body))

    def _dump(self, node: Any) -> str:
        """A syntax tree as text, in every Python as `ast.dump` of 3.11 has it.

        Otherwise results would be made again after a change of Python: 3.12 adds a field for
        parameters of types, 3.13 leaves out what is empty.
        """
        if isinstance(node, list):
            return f"[{', '.join([self._dump(n) for n in node if not self._leaves_out(n)])}]"
        if not isinstance(node, ast.AST):
            return repr(node)
        if isinstance(node, ast.Call):
            self._find_modules(node)
        # What an error says is left out; which one is raised, and where, stays.
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            node.exc = node.exc.func
        parts = []
        for name, may_lack in _fields(node.__class__):
            value = getattr(node, name, None)
            if not (may_lack and value is None) and not (name == "type_params" and not value):
                parts.append(f"{name}={self._dump(value)}")
        return f"{type(node).__name__}({', '.join(parts)})"

    def _leaves_out(self, node: Any) -> bool:
        """Whether a statement decides nothing where it stands; the names that it imports count."""
        if isinstance(node, ast.Import):
            for alias in node.names:
                self.names.append((alias.name, "", alias.asname or ""))
                self.imports.append(alias.name)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            for alias in node.names:
                self.names.append((module, alias.name, alias.asname or ""))
                self.imports += [module, f"{module}.{alias.name}"]
        return _decides_nothing(node)

    def _find_modules(self, node: ast.Call) -> None:
        """Count the modules of `import_module(f"package.{name}")`: all that the package has."""
        if _last_name(node.func) == "import_module" and isinstance(
            name := node.args[0], ast.JoinedStr
        ):
            package = cast(Any, name.values[0]).value.rstrip(".")
            files = sorted(_file(package).parent.glob("*.py"))
            self.imports += [f"{package}.{path.stem}" for path in files]


@functools.cache
def _fields(kind: type[ast.AST]) -> list[tuple[str, bool]]:
    """Names of a node's fields, and whether it may lack them."""
    return [(name, getattr(kind, name, "") is None) for name in kind._fields]


def _decides_nothing(node: Any) -> bool:
    """Whether a statement imports, is a text as a docstring is, or never runs."""
    match node:
        case ast.Import() | ast.ImportFrom() | ast.Expr(ast.Constant(str())):
            return True
        case ast.If():
            return _last_name(node.test) == "TYPE_CHECKING"
    return False


def _last_name(node: ast.expr) -> str | None:
    """`c` of the expressions `c` and `a.b.c`."""
    return getattr(node, "attr", getattr(node, "id", None))


def _lists(statement: ast.stmt) -> bool:
    """Whether a statement of a package says what it offers, if anything."""
    match statement:
        case ast.Assign(targets=[ast.Name(id="__all__")]):
            return True
        case ast.FunctionDef(name="__getattr__" | "__dir__"):
            return True
    return _decides_nothing(statement)
