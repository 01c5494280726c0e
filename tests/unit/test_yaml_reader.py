"""Files of settings: what is no YAML, or more than settings need, is one line with its remedy."""

import dataclasses

import pytest

from pcqc_base.errors import UserError
from pcqc_base.system.checkout import ROOT
from pcqc_study.study_file import load_study

BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 10)}]\n"
    for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)
# A file's bytes, the line that is named, and what is said.
FILES = {
    "UTF-16": ("title: x\n".encode("utf-16"), 1, "not UTF-8; save the file in UTF-8"),
    "UTF-16, unmarked": ("title: x\n".encode("utf-16-le"), 1, "control characters are not allowed"),
    "Latin-1": (b"a: 1\ntitle: \xe9\n", 2, "not UTF-8; save the file in UTF-8"),
    "an empty file": (b"", 1, "must hold settings as `name: value`"),
    "a list": (b"- 1\n", 1, "must hold settings"),
    "two documents": (b"a: 1\n---\nb: 2\n", 2, "but found another document"),
    "an open bracket": (b"a: [1\nb: 2\n", 2, "expected ',' or ']'"),
    "a duplicate key": (b"title: a\ntitle: b\n", 2, "duplicate key 'title'; keep one"),
    "a duplicate key inside": (b"rl:\n  clip: 1\n  clip: 2\n", 3, "duplicate key 'clip'"),
    "an unknown alias": (b"a: 1\nb: *nobody\n", 2, "found undefined alias"),
    "an alias of itself": (b"a: &x\n  b: *x\n", 2, "'*x' contains itself; write the values out"),
    "an alias bomb": (BOMB.encode(), 5, "more than 20000 values; write fewer"),
    "a merge of a number": (b"a:\n  <<: 3\n", 2, "expected a mapping or list of mappings"),
    "deep nesting": (b"a:\n b: " + b"[" * 5000, 2, "nested too deeply"),
    "5,000 digits": (b"a: 1\nb: " + b"9" * 5000, 2, "cannot be read as int"),
    "5,000 hex digits": (b"a: 1\nb: 0x" + b"f" * 5000, 2, "an integer of more than 64 bits"),
    "half a character": (b'a: 1\nb: "\\ud800"\n', 2, "invalid Unicode character escape"),
    "deep lists in a name": (b"a: 1\n? " + b"[" * 230 + b"]" * 230 + b"\n: 1\n", 2, "too deeply"),
    "deep text that breaks off": (b"x: 1\na: " + b"{a: " * 327 + b"@", 2, "nested too deeply"),
    "deep by aliases": (
        b"k0: &a0 " + b"[" * 90 + b"1" + b"]" * 90 + b"\nk1: " + b"[" * 90 + b"*a0" + b"]" * 90,
        2,
        "nested too deeply",
    ),
    "a word that is called a mapping": (b"a: 1\nb: !!map x\n", 2, "expected a mapping node"),
    "a list that is called a mapping": (b"a: 1\nb: !!map [1]\n", 2, "expected a mapping node"),
    "a time of 2,000 parts": (b"a: 1" + b":59" * 2000 + b".0\n", 1, "cannot be read as float"),
    "a tab": (b"a:\n\tb: 1\n", 2, r"found character '\t' that cannot start any token"),
    "a zero": (b"a: 1\nb: \0\n", 2, "control characters are not allowed"),
    "breaks that editors do not count": (
        "a: 1 # \x85\n# \u2028\nb: 2\nb: 3\n".encode(),
        4,
        "duplicate key 'b'",
    ),
    "2 MB": (b"a: " + b"x" * 2_000_000, 0, "larger than 1 MB; name a settings file"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_broken_file_is_one_line_with_its_line(tmp_path, name):
    content, line, words = FILES[name]
    path = tmp_path / "small.yaml"
    path.write_bytes(content)
    with pytest.raises(UserError) as refused:
        load_study(path)
    message = str(refused.value)
    assert message.startswith(f"{path}:{line}: " if line else f"{path}: ")
    assert words in message
    assert "\n" not in message


def test_aliases_and_merge_keys_give_what_they_stand_for(tmp_path):
    path = tmp_path / "small.yaml"
    own = (ROOT / "config/studies/clinic.yaml").read_text()
    own = own.replace("\nrl:\n", "\nrl:\n  <<: {clip: 0.3, save_every: 9}\n  clip: *c\n")
    path.write_text(own.replace("noise: 0.02", "noise: &c 0.02"))
    changed = dataclasses.replace(load_study("clinic").rl, clip=0.02)
    assert load_study(path).rl == changed  # its own save_every stands
