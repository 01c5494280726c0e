"""The command `creditbench`: score a credit, train with it, make the tables and the material."""

import sys

from pcqc_base.errors import UserError
from pcqc_base.system.checkout import ROOT
from pcqc_base.system.files import write_atomic
from pcqc_study.program import FILE, Program, argument, of_a_run, option

# `analysis` belongs to the checkout: a name so common is not installed.
sys.path.insert(0, str(ROOT))

BUNDLE = "the file to write; without it the bench's own, and the tables of `leaderboard`"
BESIDE = ("pcqc", "grpo")  # stand beside a credit of one's own
OWNER = "creditbench"  # of the tables in the bench's README
creditbench = Program("creditbench", "Score a credit, train with it, make the tables and material.")
main = creditbench.run


@creditbench.command()
@argument("file", "defines a function under `@turn_credit.credit`")
@option("--bundle FILE", "other candidate groups than the bench's own", type=FILE)
def run(file, bundle) -> None:
    """Score the credits of a Python file, which is run, beside PCQC, GRPO and controls."""
    from credit_lab.bench.bundle import PUBLISHED
    from credit_lab.bench.methods import credits_of
    from credit_lab.bench.table import CONTROLS, gradients, scored, scores
    from turn_credit import CREDITS
    from turn_credit.probes import behaviour

    own, beside = credits_of(file), [CREDITS[name] for name in BESIDE]
    wrong = [behaviour(credit).missing for credit in own]
    if all(wrong):  # where one can be scored, the table tells what the others lack
        raise UserError(f"{file}: credit '{own[0].name}' cannot be scored: {wrong[0]}")
    every = scored([*own, *beside, *CONTROLS], bundle or PUBLISHED)
    print(f"{scores(every)}\n\n{gradients(every)}")


@creditbench.command()
@argument("files", "as of `run`; or a method's name", nargs=-1, required=True)
@option("--keep", "write the rows into the bench's README")
def train(files, keep) -> None:
    """Train with a credit or a method for some minutes; a row beside those that were kept."""
    from analysis.copied_tables import shown, with_tables
    from credit_lab.bench.table import PAGE
    from credit_lab.bench.train import joined, train

    shown(PAGE, OWNER, "trained")  # it fails before the training, not after it
    rows = [row for file in files for row in train(file)]
    table = joined(shown(PAGE, OWNER, "trained"), rows)
    print(table)
    if keep:
        write_atomic(PAGE, with_tables(PAGE, OWNER, {"trained": table}))


@creditbench.command()
@option("--check", "write nothing, and fail where README has other tables")
def leaderboard(check) -> None:
    """Score all credits of turn_credit; write the tables into the bench's README."""
    from credit_lab.bench.table import PAGE

    page = _page_with_tables()
    if not check:
        write_atomic(PAGE, page)
    elif page != PAGE.read_text(encoding="utf-8"):
        raise UserError(f"{PAGE}: its tables are others; run `creditbench leaderboard`, and commit")


def _page_with_tables() -> str:
    """The bench's page with the tables of all credits; these are printed."""
    from analysis.copied_tables import with_tables
    from credit_lab.bench import table
    from turn_credit import CREDITS

    every = table.scored([*(c for c in CREDITS.values() if c.of != "nodes"), *table.CONTROLS])
    trained = table.accuracies()
    tables = {
        "foretold": table.foretold(every, trained),
        "places": table.places(every, trained),
        "scores": table.scores(every),
        "gradients": table.gradients(every),
        "worlds": table.worlds(),
    }
    print(*tables.values(), sep="\n\n")
    return with_tables(table.PAGE, OWNER, tables)


@creditbench.command()
@of_a_run
@argument("bundle", BUNDLE, type=FILE, required=False)
@option("--beside METHOD", "a further method, the same run of it", "beside", multiple=True)
def record(study, method, run, bundle, beside) -> None:
    """Record a bundle and its card from Shared SFT and runs' first and last checkpoints."""
    from credit_lab.bench.bundle import PUBLISHED
    from credit_lab.bench.record import record_run
    from credit_lab.bench.table import PAGE

    print(record_run(study, [method, *beside], run, bundle or PUBLISHED))
    if bundle in (None, PUBLISHED):
        write_atomic(PAGE, _page_with_tables())


if __name__ == "__main__":
    sys.exit(main())
