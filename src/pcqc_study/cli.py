"""The command `pcqc`: look at a study, make and change it, and the steps of its workflow."""

import importlib
import sys

import click
from click.shell_completion import get_completion_class

from pcqc_base.system.checkout import ROOT
from pcqc_study.program import Program, pcqc

# What `pcqc --help` lists; the steps of the workflow are the third group.
GROUPS = {
    "Look at a study": "status answer diff explain consult check doctor plan",
    "Make and change": "init data vary tune accept serve clean restore tables figures docs archive "
    "push completion",
}
# Each adds its commands.
MODULES = ("pcqc_study.job_commands", "pcqc_study.commands", "data_prep.cli", "analysis.cli")
STEPS = "Steps of the workflow, which snakemake runs"
click.version_option(package_name="pcqc", message="%(prog)s %(version)s")(pcqc)


def program() -> Program:
    """`pcqc` with all of its commands."""
    # `analysis` and `data_prep` belong to the checkout: names so common are not installed.
    sys.path.insert(0, str(ROOT))
    for module in MODULES:
        importlib.import_module(module)
    listed = {title: names.split() for title, names in GROUPS.items()}
    steps = [name for name in pcqc.commands if not any(name in names for names in listed.values())]
    pcqc.sections = {**listed, STEPS: steps}
    return pcqc


def main(arguments: list[str] | None = None) -> int:
    """Run a command of `pcqc`, and return its exit status; see `Program.run`."""
    return program().run(arguments)


@pcqc.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print a script that completes commands for a shell: eval "$(pcqc completion bash)"."""
    print(get_completion_class(shell)(pcqc, {}, "pcqc", "_PCQC_COMPLETE").source())


if __name__ == "__main__":
    sys.exit(main())
