"""A stranger's bundle: what it brings is data below the results, or is refused in one line."""

import hashlib
import io
import json
import random
import shutil
import tarfile

import pytest
import yaml

from analysis import bundle, tar_files
from analysis.tar_files import unpack
from pcqc_base.errors import UserError
from pcqc_base.settings.every_method import method_class
from pcqc_base.system.files import digest, sha256_file, write_atomic
from pcqc_base.system.manifest import MANIFEST
from pcqc_study.graph import Jobs, latest


def packed(files):
    """A tar as we write it."""
    return b"".join(tar_files.packed(files))


EVIL = "raise SystemExit('it ran')\n"


def tar_of(entry, content=b""):
    """A tar of one entry, as a stranger may write it."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:xz", preset=0) as tar:
        entry.size = len(content)
        tar.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def entry(name="x", **attributes):
    made = tarfile.TarInfo(name)
    for attribute, value in attributes.items():
        setattr(made, attribute, value)
    return made


HOSTILE = {
    "a path upwards": (packed({"../x": b""}), "lie elsewhere (../x)"),
    "a path upwards within": (packed({"a/../../x": b""}), "lie elsewhere"),
    "an absolute path": (packed({"/tmp/x": b""}), "lie elsewhere (/tmp/x)"),
    "a hidden file": (packed({"a/.made": b""}), "lie elsewhere (a/.made)"),
    "a backslash": (packed({"a\\x": b""}), "lie elsewhere"),
    "an escape sequence": (packed({"a\x1b[2Jx": b""}), r"lie elsewhere (a\x1b[2Jx)"),
    "a symbolic link": (tar_of(entry(type=tarfile.SYMTYPE, linkname="/etc")), "no plain file"),
    "a hard link": (tar_of(entry(type=tarfile.LNKTYPE, linkname="/etc/hosts")), "no plain file"),
    "a device": (tar_of(entry(type=tarfile.CHRTYPE)), "no plain file"),
    "a pipe": (tar_of(entry(type=tarfile.FIFOTYPE)), "no plain file"),
    "a header of 9 MB": (
        tar_of(entry(pax_headers={"comment": "A" * 9_000_000})),
        "a header of 9000",
    ),
    "a cut end": (packed({"x": bytes(range(256)) * 99})[:-60], "it ends too soon"),
    "no tar": (b"PK\3\4", "damaged"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_tar_is_refused_and_writes_nothing_elsewhere(kind, tmp_path):
    content, words = HOSTILE[kind]
    path, folder = tmp_path / "in" / "a.tar.xz", tmp_path / "out" / "here"
    path.parent.mkdir()
    folder.mkdir(parents=True)
    path.write_bytes(content)
    with pytest.raises(UserError) as refused:
        unpack(path, folder)
    assert words in str(refused.value)
    assert str(refused.value).count("\n") == 0
    assert [p for p in tmp_path.rglob("*") if p.is_file() and folder not in p.parents] == [path]


def test_a_bomb_is_read_in_pieces_up_to_its_bound(tmp_path):
    """8 MB of zeros in less than 8 kB."""
    path, folder = tmp_path / "a.tar.xz", tmp_path / "out"
    path.write_bytes(tar_of(entry(), bytes(8_000_000)))
    folder.mkdir()
    assert path.stat().st_size < 8_000
    with pytest.raises(UserError, match=r"damaged \(more than 4,000,000 bytes\)"):
        unpack(path, folder, most=4_000_000)
    assert (folder / "x").stat().st_size <= 4_000_000
    (folder / "x").unlink()
    assert unpack(path, folder) == ["x"]


def test_a_tar_is_that_of_the_library_and_is_packed_part_by_part(tmp_path):
    rng, size = random.Random(0), 3 * tar_files.CHUNK + 7
    (tmp_path / "weights").write_bytes(rng.randbytes(size))
    files = {"a/empty": b"", "weights": tmp_path / "weights", "é" * 120: b"x" * 512}
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:xz", preset=9) as tar:
        for name, source in files.items():
            content = source if isinstance(source, bytes) else source.read_bytes()
            made = entry(name, size=len(content))
            tar.addfile(made, io.BytesIO(content))
    parts = list(tar_files.packed(files))
    assert b"".join(parts) == buffer.getvalue()
    assert max(map(len, parts)) < 2 * tar_files.CHUNK


def test_a_file_that_changes_while_it_is_packed_is_no_tar(tmp_path):
    path = tmp_path / "weights"
    path.write_bytes(bytes(10))
    parts = tar_files.packed({"weights": path, "other": b""})
    next(parts)  # its header
    path.write_bytes(bytes(9))
    with pytest.raises(UserError, match="weights: changed while it was packed; run again"):
        write_atomic(tmp_path / "a.tar.xz", parts)
    assert [file.name for file in tmp_path.iterdir()] == ["weights"]


def test_a_tar_that_fills_the_disk_is_refused_before_it_does(tmp_path, monkeypatch):
    path = tmp_path / "a.tar.xz"
    path.write_bytes(packed({"x": bytes(1000)}))
    usage = type("Usage", (), {"free": 999})
    monkeypatch.setattr(tar_files.shutil, "disk_usage", lambda folder: usage)
    with pytest.raises(UserError, match="has room for"):
        unpack(path, tmp_path)
    assert not (tmp_path / "x").exists()


@pytest.fixture
def clone(archived, collected, tmp_path, monkeypatch):
    """An empty working directory, and a folder that a stranger fills beside the study's archive."""
    folder = shutil.copytree(archived.parent, tmp_path / "bundle")
    (tmp_path / "clone").mkdir()
    monkeypatch.chdir(tmp_path / "clone")
    monkeypatch.setattr(bundle, "ROOT", tmp_path / "clone")
    return collected.study, folder


def release(folder, study, files):
    """Pack files as a part of a bundle, with its sums."""
    part = folder / f"{study.name}.results-1.tar.xz"
    part.write_bytes(packed(files))
    sums = f"{sha256_file(part)}  {part.name}\n"
    (folder / f"{study.name}.SHA256SUMS").write_text(sums)


def result(study, kind="select", place="selection", settings=None, **files):
    """A small result with a manifest that fits it, as a part holds it."""
    fingerprint = {"job": f"{kind} pcqc A", "settings": settings or {}}
    fingerprint |= {"modules": {}, "inputs": {}}
    sha256 = {n: hashlib.sha256(content).hexdigest() for n, content in files.items()}
    manifest = {"fingerprint": fingerprint, "files": sha256, "also_for": {}}
    manifest["digest"] = digest(manifest)
    name = f"{study.name}/{place}/pcqc/A/{digest(fingerprint)[:8]}"
    packed = {f"{name}/{n}": content for n, content in files.items()}
    return {**packed, f"{name}/{MANIFEST}": json.dumps(manifest).encode()}


def strays(study):
    """What a part may not hold, and the words that refuse it."""
    good = result(study, choice=b"{}")
    first = next(iter(good))
    yield good | {"other/runs/x": b""}, "other/runs/x, of another study"
    yield good | {"config/studies/clinic.yaml": b""}, "of another study"
    yield good | {f"{study.name}/evil.py": EVIL.encode()}, "which no manifest describes"
    yield good | {f"{first}.py": EVIL.encode()}, "which no manifest describes"
    yield good | {first: b"changed"}, "which no manifest describes"
    yield result(study, place="runs", choice=b"{}"), "of another job"
    yield result(study, kind="no kind", choice=b"{}"), "of another job"


@pytest.mark.parametrize("number", range(7))
def test_what_is_no_result_of_the_study_is_refused_and_nothing_is_changed(clone, number):
    study, folder = clone
    files, words = list(strays(study))[number]
    release(folder, study, files)
    with pytest.raises(UserError) as refused:
        bundle.restore(study, folder)
    assert words in str(refused.value)
    assert [p for p in study.results.parent.rglob("*") if p.is_file() and p.suffix != ".lock"] == []


def test_a_result_that_its_manifest_describes_is_restored(clone):
    study, folder = clone
    settings = Jobs(study).job("select", "pcqc", "A").fingerprint.settings
    release(folder, study, result(study, settings=settings, choice=b"{}"))
    bundle.restore(study, folder)
    assert (latest(study, "select", "pcqc", "A") / "choice").read_bytes() == b"{}"


@pytest.mark.parametrize("line", ["0" * 64 + "  ../x", "0" * 64 + "  /dev/zero", "no sum", "\0"])
def test_sums_name_files_of_the_bundle_alone(clone, line):
    study, folder = clone
    (folder / f"{study.name}.SHA256SUMS").write_text(f"{line}\n")
    with pytest.raises(UserError, match=r"SHA256SUMS: damaged; get the file again"):
        bundle.restore(study, folder)


@pytest.mark.parametrize(
    "variation",
    [
        {"evil": {"like": "pcqc", "file": "evil.py"}},
        {"evil": {"like": "pcqc", "file": "evil"}},
        {"evil": {"method": "../../x"}},
        {"evil": {"like": "pcqc", "method": "os"}},
        {"evil": {"like": "nothing"}},
        {"evil": {"like": "pcqc", "divide": "os:system"}},
        {"evil": {"like": "pcqc", "tree": {"file": "evil"}}},
        {"evil": "pcqc"},
    ],
)
def test_a_variation_that_could_run_something_is_refused(clone, variation):
    study, folder = clone
    (folder / "evil.py").write_text(EVIL)
    released = folder / f"{study.name}.variations.yaml"
    released.write_text(yaml.safe_dump(variation))
    with pytest.raises(UserError, match=r"variations\.yaml:\d+: evil.*; take the entry out"):
        bundle.restore(study, folder)
    assert not (folder.parent / "clone" / "config").exists()


def test_a_variation_is_shown_before_it_is_recorded(clone, capsys):
    study, folder = clone
    (folder / f"{study.name}.variations.yaml").write_text("weak: {like: pcqc, beta: 0.5}\n")
    bundle.restore(study, folder)
    assert 'weak: {"like": "pcqc", "beta": 0.5}' in capsys.readouterr().out


@pytest.mark.parametrize("name", ["../../x", "a b", "", ":", "os:system", "x" * 300])
def test_a_method_of_no_module_is_one_line(name):
    with pytest.raises(UserError, match="no method"):
        method_class(name)
