"""The command `creditbench`: score a credit, train with it, make the tables and the material."""

import argparse
import sys
from pathlib import Path

import pcqc_study.cli
from pcqc_base.errors import UserError
from pcqc_base.system.checkout import ROOT
from pcqc_base.system.files import write_atomic
from pcqc_study.job_commands import load, run_command

# `analysis` belongs to the checkout: a name so common is not installed.
sys.path.insert(0, str(ROOT))

OWNER = "creditbench"  # of the tables in the bench's README


def main(arguments: list[str] | None = None) -> int:
    """Run a subcommand; see `pcqc_study.cli.main`."""
    return pcqc_study.cli.main(arguments, parser())


def parser() -> argparse.ArgumentParser:
    """The parser of all subcommands; each sets `handler`, called with the arguments."""
    top: argparse.ArgumentParser = pcqc_study.cli.Parser(prog="creditbench", description=__doc__)
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    text = "score the credits of a Python file, which is run, beside the bench's controls"
    command = _command(commands, "run", _run, text)
    command.add_argument("file", help="defines a function under `@turn_credit.credit`")
    command.add_argument("--bundle", type=Path, help="other candidate groups than the bench's own")
    text = "train with a credit or a method for some minutes; a row beside those that were kept"
    command = _command(commands, "train", _train, text)
    command.add_argument("what", nargs="+", metavar="FILE", help="as of `run`; or a method's name")
    text = "write the rows into the bench's README"
    command.add_argument("--keep", action="store_true", help=text)
    text = "score all credits of turn_credit; write the tables into the bench's README"
    command = _command(commands, "leaderboard", _leaderboard, text)
    text = "write nothing, and fail where README has other tables"
    command.add_argument("--check", action="store_true", help=text)
    text = "record a bundle and its card from Shared SFT and a run's first and last checkpoint"
    command = run_command(commands, "record", _record, text)
    text = "the file to write; without it the bench's own, and the tables of `leaderboard`"
    command.add_argument("bundle", type=Path, nargs="?", help=text)
    return top


def _command(commands, name: str, handler, text: str) -> argparse.ArgumentParser:
    command = commands.add_parser(name, help=text, description=text)
    command.set_defaults(handler=handler)
    return command


def _run(arguments: argparse.Namespace) -> None:
    from credit_lab.bench.bundle import PUBLISHED
    from credit_lab.bench.methods import credits_of
    from credit_lab.bench.table import CONTROLS, gradients, scored, scores

    every = scored([*credits_of(arguments.file), *CONTROLS], arguments.bundle or PUBLISHED)
    print(f"{scores(every)}\n\n{gradients(every)}")


def _train(arguments: argparse.Namespace) -> None:
    from analysis.copied_tables import shown, with_tables
    from credit_lab.bench.table import PAGE
    from credit_lab.bench.train import joined, train

    shown(PAGE, OWNER, "trained")  # it fails before the training, not after it
    rows = [row for what in arguments.what for row in train(what)]
    table = joined(shown(PAGE, OWNER, "trained"), rows)
    print(table)
    if arguments.keep:
        write_atomic(PAGE, with_tables(PAGE, OWNER, {"trained": table}))


def _leaderboard(arguments: argparse.Namespace) -> None:
    from credit_lab.bench.table import PAGE

    page = _page_with_tables()
    if not arguments.check:
        write_atomic(PAGE, page)
    elif page != PAGE.read_text(encoding="utf-8"):
        raise UserError(f"{PAGE}: its tables are others; run `creditbench leaderboard`, and commit")


def _page_with_tables() -> str:
    """The bench's page with the tables of all credits; these are printed."""
    from analysis.copied_tables import with_tables
    from credit_lab.bench.table import CONTROLS, PAGE, gradients, scored, scores
    from turn_credit import CREDITS

    every = scored([*(c for c in CREDITS.values() if c.of != "nodes"), *CONTROLS])
    tables = {"scores": scores(every), "gradients": gradients(every)}
    print(*tables.values(), sep="\n\n")
    return with_tables(PAGE, OWNER, tables)


def _record(arguments: argparse.Namespace) -> None:
    from credit_lab.bench.bundle import PUBLISHED
    from credit_lab.bench.record import record_run
    from credit_lab.bench.table import PAGE

    bundle = arguments.bundle or PUBLISHED
    print(record_run(load(arguments), arguments.method, arguments.run, bundle))
    if bundle == PUBLISHED:
        write_atomic(PAGE, _page_with_tables())


if __name__ == "__main__":
    sys.exit(main())
