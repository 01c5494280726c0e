"""The clinic's world, and its raw files: training cases, SFT conversations, benchmarks."""

from dataclasses import replace

from pcqc_base.system.files import read_jsonl, write_jsonl
from pcqc_base.system.manifest import checked
from pcqc_base.task import Task
from pcqc_clinic.build import TRAINING, dialogue, draw_cases, draw_conversations, key_of_dialogue
from pcqc_clinic.world import make_world, save_world


def run(task: Task) -> dict:
    """Draw the world, or one set as a published file would hold it; the number of rows.

    Cases are dialogues as ATPO publishes them. SFT conversations are lists of messages; their cases
    are beside them.
    """
    settings = task.settings
    name, seed, world = settings.name, settings.world.seed, make_world(settings.world)
    if name == "world":
        save_world(world, task.folder / "world.json")
        return {}
    before = [
        key_of_dialogue(row)
        for path in task.inputs.values()
        for _, row in read_jsonl(checked(path))
    ]
    if name == "sft":
        own = {n: v for n, v in vars(settings).items() if n not in ("name", "world")}
        held, cases = draw_conversations(world, seed, before, **own)
        write_jsonl(task.folder / "sft.jsonl", ({"messages": messages} for messages in held))
    else:
        if name == "train":
            benchmark = replace(TRAINING, options=settings.options, cases=settings.cases)
        else:
            benchmark = settings.benchmark
        cases = draw_cases(world, seed, name, benchmark, before)
    rows = (dialogue(case, settings.instruction) for case in cases)
    write_jsonl(task.folder / ("cases.jsonl" if name == "sft" else f"{name}.jsonl"), rows)
    return {"rows": len(cases)}
