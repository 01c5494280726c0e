"""`pcqc track`: prepare the MLflow store, mirror runs into it, collect them for the analysis."""

import argparse


def register(subparsers: argparse._SubParsersAction) -> None:
    """Add `pcqc track` and its actions; each action sets `handler`, called with the arguments."""
    track = subparsers.add_parser("track", help="put runs into MLflow and fetch them back")
    actions = track.add_subparsers(required=True, metavar="ACTION")
    for name, handler, text in (
        ("prepare", _prepare, "create the MLflow store, or migrate it to this version of MLflow"),
        ("mirror", _mirror, "copy a method's finished runs into MLflow; what is there is kept"),
        ("publish", _publish, "put the report, tables, figures and transcripts into MLflow"),
        ("collect", _collect, "fetch all runs from MLflow into results/STUDY/collected"),
    ):
        action = actions.add_parser(name, help=text, description=text)
        action.add_argument("study", help="name of a study in config/studies/, or a path")
        action.set_defaults(handler=handler)
        if name == "collect":
            action.add_argument(
                "--add",
                action="store_true",
                help="keep the runs in results/STUDY/collected, such as those of an archive that "
                "`pcqc restore` has unpacked, and add this machine's",
            )
        if name == "mirror":
            action.add_argument("method", help="name of a method in config/methods.yaml")
            action.add_argument(
                "--runs", type=_letters, help="letters, e.g. A,B (default: all evaluated runs)"
            )


def _letters(text: str) -> list[str]:
    return [letter.strip() for letter in text.split(",") if letter.strip()]


def _prepare(arguments: argparse.Namespace) -> None:
    from pcqc.study import load_study
    from pcqc.tracking.prepare import prepare

    prepare(load_study(arguments.study))


def _mirror(arguments: argparse.Namespace) -> None:
    from pcqc.study import load_study
    from pcqc.tracking.mirror import mirror

    mirror(load_study(arguments.study), arguments.method, arguments.runs)


def _publish(arguments: argparse.Namespace) -> None:
    from pcqc.study import load_study
    from pcqc.tracking.publish import publish

    publish(load_study(arguments.study))


def _collect(arguments: argparse.Namespace) -> None:
    from pcqc.study import load_study
    from pcqc.tracking.collect import collect

    collect(load_study(arguments.study), arguments.add)
