"""What README and docs tell a reader to type is typed, on the finished miniature study."""

import functools
import importlib.util
import re
import shlex
import shutil
from pathlib import Path

import click
import pytest
from docs_pages import BLOCK, PAGES, typed
from snakemake.cli import get_argument_parser
from workplace import STUDY

from data_prep.convert import convert_file
from pcqc_base.system.checkout import ROOT
from pcqc_study.cli import program as pcqc
from pcqc_study.job_kinds import KINDS
from pcqc_study.study_file import load_study

# Why a command cannot be typed here. Whatever matches none of these is.
OWN = ("large", "my-study")  # studies of the reader
GPUS, NETWORK = "needs GPUs", "downloads from the network"
SMALL_MODEL = "takes minutes; tests/long/test_real_dag.py makes a smaller one"
NOT_HERE = {
    r"make test": "would run this test",
    r"snakemake .*study=paper --until sft .*": GPUS,
    r"pcqc doctor real": GPUS,
    r"python -m benchmarks\.first_hour": GPUS,
    r"pcqc serve paper .*": GPUS,
    r"snakemake --workflow-profile slurm .*": "needs a cluster; tests/long/test_slurm.py has one",
    r"pcqc data fetch \w.*": NETWORK,
    r"make trackers": NETWORK,
    r"pcqc push .*": "needs a token of a hub; see test_push.py",
    r"(PCQC_DATA=\S+ )?make results STUDY=real-smoke": SMALL_MODEL,
    r"snakemake .*study=real-smoke .*": SMALL_MODEL,
    r".*\bmy-study\b.*": "needs ten cases; pretrained/test_own_cases.py types it",
    r"(snakemake .*study=|pcqc \w+ )clinic-full\b.*": "at full size; see test_collect.py",
    r"snakemake --cores 2 (vineppo|peers)": "takes minutes; see test_peers.py",
    r"pcqc tune clinic.*": "the miniature has no trials; see test_tuning.py",
    r"make ui": "opens a server; see test_ui.py",
    r"creditbench run my_credit\.py": "reads all of its material; see test_creditbench.py",
}
# What differs from the page: the study is small and is named everywhere, the Makefile is the
# repository's, one ablation stands for the four, without a report of its own (a variation's is
# drawn), and brackets mean that something may be left out.
CHANGED = (
    (r"\bclinic\b", STUDY),
    (r"^(snakemake(?!.*--config).*)", rf"\1 --config study={STUDY}"),
    (r"^pcqc vary", rf"pcqc vary --study {STUDY}"),
    (r"^make results$", f"make -f {ROOT}/Makefile -o env results STUDY={STUDY}"),
    (r"\batpo_ablations\b", "atpo_no_visits --until evaluate"),
    (r"[][]", ""),
)
# Files of cases that the pages take for the reader's own, and which of the study's stand in.
GIVEN = {
    "FILE.jsonl": "clinic_dev.jsonl",
    "TRAIN.jsonl": "train.jsonl",
    "MEDQA.jsonl": "clinic_dev.jsonl",
    "ICRAFT.jsonl": "clinic_elsewhere.jsonl",
    "my-cases.jsonl": "clinic_wide.jsonl",
}


def reason(line: str) -> str | None:
    """Why a line is not typed here; None where it is."""
    return next((why for known, why in NOT_HERE.items() if re.fullmatch(known, line)), None)


# Blocks with such a line train, evaluate and draw a report.
VARIED = "pcqc_learning_rate_0_0005"  # the name that `pcqc vary` gives it, as test_vary.py says
SLOW = re.compile(rf"snakemake --cores \w+ (atpo_ablations|executed_local|{VARIED})( .*)?")
BLOCKS = [
    pytest.param(
        [line for line in lines if not reason(line)],
        id=f"{page}: {lines[0]}"[:60],
        marks=[pytest.mark.slow] if any(map(SLOW.fullmatch, lines)) else [],
    )
    for page, lines in typed()
    if not all(map(reason, lines))
]


@pytest.fixture(scope="module")
def type_in(mini, fixtures, tmp_path_factory):
    """Types a line at the root of a copy of the finished study; what it said if it failed.

    All blocks share the copy, as a reader goes on where the last page ended; none needs another,
    and a line that stands on several pages is typed once.
    """
    folder = tmp_path_factory.mktemp("reader")
    copy = mini.copied(folder / "copy")
    for name, source in GIVEN.items():
        prepared = copy.results / "data" / Path(source).stem / "latest" / source
        shutil.copy(prepared, copy.folder / name)
    shutil.copy(fixtures / "mediq.jsonl", copy.folder / "RAW.jsonl")
    convert_file(fixtures / "atpo_sft.jsonl", copy.folder / "SFT.jsonl")

    @functools.cache
    def run(line: str) -> str:
        done = copy.typed(line)
        return "" if done.returncode == 0 else f"{line}\n{done.stdout}{done.stderr}"[-3000:]

    return run


@pytest.mark.parametrize("lines", BLOCKS)
def test_what_a_page_says_to_type_works(lines, type_in):
    for line in lines:
        for pattern, instead in CHANGED:
            line = re.sub(pattern, instead, line)
        assert type_in(line) == ""


UNTYPED = [line for _, lines in typed() for line in lines if reason(line) or SLOW.fullmatch(line)]


@pytest.mark.parametrize("line", UNTYPED)
def test_what_is_not_typed_here_names_what_there_is(line):
    """Commands, options, studies, methods and modules."""
    program, *words = [word for word in shlex.split(line) if not re.match(r"[A-Z_]+=", word)]
    names = dict(re.findall(r"\b(study|STUDY)=([\w-]+)", line))
    if program == "pcqc":
        command = pcqc()
        while isinstance(command, click.Group):
            command, *words = command.commands[words[0]], *words[1:]
        words = ["clinic" if word in OWN else word for word in words]
        study = command.make_context("pcqc", words).params.get("study", "clinic")
        names["study"] = getattr(study, "name", study)
    elif program == "snakemake":
        names["methods"] = get_argument_parser().parse_args(words).targets
    elif program == "make":
        makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
        assert re.search(rf"^{words[0]}:", makefile, re.MULTILINE)
    elif program == "python" and not words[1].startswith("vllm."):
        assert importlib.util.find_spec(words[1])
    name = names.get("study") or names.get("STUDY") or "clinic"
    study = load_study("clinic" if name in OWN else name)
    rules = [ROOT / "Snakefile", *ROOT.glob("workflow/rules/*.smk")]
    workflow = "".join(path.read_text(encoding="utf-8") for path in rules)
    targets = set(re.findall(r"^ *rule (\w+):", workflow, re.MULTILINE)) | {*study.methods}
    targets |= {each.rule or kind for kind, each in KINDS.items()}
    assert set(names.get("methods", ())) <= targets | {VARIED}


def test_no_reason_outlives_its_command_and_no_block_goes_unread():
    lines = [line for _, lines in typed() for line in lines]
    assert [known for known in NOT_HERE if not any(re.fullmatch(known, x) for x in lines)] == []
    pages = (page.read_text(encoding="utf-8") for page in PAGES)
    languages = {language for page in pages for language, _ in BLOCK.findall(page)}
    assert languages <= {"", "json", "mermaid", "python", "toml", "yaml"}, (
        "a block of commands names no language"
    )
