"""The clinic's world, and its sets of cases: training, SFT conversations, benchmarks."""

from dataclasses import replace
from itertools import chain

from pcqc.cases.case import read_cases, write_cases
from pcqc_base.system.manifest import checked
from pcqc_base.task import Task
from pcqc_clinic.build import TRAINING, draw_cases, draw_conversations
from pcqc_clinic.world import make_world, save_world


def run(task: Task) -> dict:
    """Draw the world or one set; the number of rows, for the manifest."""
    settings = task.settings
    name, seed, world = settings.name, settings.world.seed, make_world(settings.world)
    if name == "world":
        save_world(world, task.folder / "world.json")
        return {}
    folders = task.inputs.items()
    files = [folder / ("cases" if key == "sft" else key) for key, folder in folders]
    before = chain.from_iterable(read_cases(checked(path.with_suffix(".jsonl"))) for path in files)
    if name == "sft":
        own = {n: v for n, v in vars(settings).items() if n not in ("name", "world")}
        return {"rows": draw_conversations(world, seed, before, task.folder, **own)}
    if name == "train":
        benchmark = replace(TRAINING, options=settings.options, cases=settings.cases)
    else:
        benchmark = settings.benchmark
    cases = draw_cases(world, seed, name, benchmark, before)
    write_cases(task.folder / f"{name}.jsonl", cases)
    return {"rows": len(cases)}
