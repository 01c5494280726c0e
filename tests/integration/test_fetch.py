"""Downloads from a server on this machine that breaks off or lies."""

import hashlib
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from data_prep import fetch as fetching
from data_prep.fetch import fetch
from data_prep.sources import Holds, Source, load_sources, source_name
from pcqc_base.errors import UserError
from pcqc_study.cli import main

CONTENT = bytes(range(256)) * 1024
DIGEST = hashlib.sha256(CONTENT).hexdigest()


class Home(BaseHTTPRequestHandler):
    """Serves CONTENT as the server's settings say."""

    def do_GET(self):
        home = self.server
        home.asked += 1
        if home.moved:
            self.send_response(302)
            self.send_header("Location", home.moved)
            self.end_headers()
            return
        if home.status != 200:
            self.send_error(home.status)
            return
        self.send_response(200)
        if home.length:
            self.send_header("Content-Length", str(len(home.content)))
        self.end_headers()
        self.wfile.write(home.content[: home.break_after])

    def log_message(self, *_):
        pass


@pytest.fixture
def home(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Home)
    server.content, server.length, server.asked = CONTENT, True, 0
    server.status, server.break_after, server.moved = 200, None, None
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def source(home):
    url = f"http://127.0.0.1:{home.server_port}/cases.jsonl"
    return Source(
        "cases", "Cases", url, "CC-BY-4.0", "set/cases.jsonl", ("cases",), len(CONTENT), DIGEST
    )


def test_licence_and_size_are_said_before_a_byte_is_asked_for(home, source, tmp_path):
    messages = []

    def say(text):
        messages.append((text, home.asked))

    path = fetch(source, tmp_path, say)
    assert path == tmp_path / "set" / "cases.jsonl"
    assert path.read_bytes() == CONTENT
    first, asked = messages[0]
    assert asked == 0
    assert "0.3 MB" in first
    assert "licence: CC-BY-4.0" in first
    assert source.url in first
    assert [p.name for p in path.parent.iterdir()] == ["cases.jsonl"]
    fetch(source, tmp_path, say)
    assert home.asked == 1
    assert "already at" in messages[-1][0]


def test_a_broken_download_keeps_nothing(home, source, tmp_path):
    home.break_after = 100_000
    with pytest.raises(UserError, match=r"after 100000 of 262144 bytes; fetch again"):
        fetch(source, tmp_path)
    assert list((tmp_path / "set").iterdir()) == []
    home.break_after = None
    assert fetch(source, tmp_path).read_bytes() == CONTENT


@pytest.mark.parametrize("length", [True, False])
def test_a_wrong_digest_keeps_nothing(home, source, tmp_path, length):
    home.content, home.length = CONTENT[:-1] + b"?", length
    with pytest.raises(UserError, match=f"the pinned one is {DIGEST}; the download was removed"):
        fetch(source, tmp_path)
    assert list((tmp_path / "set").iterdir()) == []
    home.content = CONTENT
    assert fetch(source, tmp_path).read_bytes() == CONTENT


def test_a_part_that_a_kill_left_is_not_used(source, tmp_path):
    part = tmp_path / "set" / "cases.jsonl.part"
    part.parent.mkdir()
    part.write_bytes(b"something else")
    assert fetch(source, tmp_path).read_bytes() == CONTENT


def test_another_file_in_its_place_is_left_as_it_is(home, source, tmp_path):
    place = tmp_path / source.file
    place.parent.mkdir()
    place.write_text("mine")
    with pytest.raises(UserError, match="move it away and fetch again"):
        fetch(source, tmp_path)
    assert place.read_text() == "mine"
    assert home.asked == 0


def test_what_only_git_names_is_checked_by_its_blob_id(source, tmp_path):
    blob = hashlib.sha1(b"blob %d\0" % len(CONTENT) + CONTENT).hexdigest()
    pinned = replace(source, bytes=None, sha256=None, git_blob=blob)
    path = fetch(pinned, tmp_path)
    path.unlink()
    with pytest.raises(UserError, match="its git blob id is"):
        fetch(replace(pinned, git_blob="0" * 40), tmp_path)


@pytest.mark.parametrize("length", [True, False])
@pytest.mark.parametrize("known", [True, False])
def test_more_bytes_than_the_file_may_have_are_refused(
    home, source, tmp_path, monkeypatch, length, known
):
    monkeypatch.setattr(fetching, "LARGEST", len(CONTENT))
    home.content, home.length = CONTENT + b"?", length
    pinned = source if known else replace(source, bytes=None)
    with pytest.raises(UserError, match=r"sends more than 262,144 bytes.*was removed"):
        fetch(pinned, tmp_path)
    assert list((tmp_path / "set").iterdir()) == []


@pytest.mark.parametrize("address", ["http://127.0.0.1:{}/x", "ftp://127.0.0.1/x", "//127.0.0.1/y"])
def test_a_redirect_away_from_https_is_refused(home, source, tmp_path, address):
    home.moved = address.format(home.server_port)
    with pytest.raises(UserError, match=r"302 redirects to .*, which is not https; not followed"):
        fetch(source, tmp_path)
    assert home.asked == 1


@pytest.mark.parametrize("status", [404, 503])
def test_a_refusal_is_said(home, source, tmp_path, status):
    home.status = status
    with pytest.raises(UserError, match=f"{source.url}: {status} "):
        fetch(source, tmp_path)


def test_every_source_is_pinned():
    for source in load_sources().values():
        assert source.url.startswith("https://raw.githubusercontent.com/")
        assert len(source.url.split("/")[5]) == 40
        assert (len(source.sha256 or "") == 64) != (len(source.git_blob or "") == 40)
        assert source.licence


def test_sources_are_known_by_every_name_of_their_file(tmp_path):
    assert source_name(tmp_path / "rl_train_dataset.jsonl") == "atpo_rl"
    assert source_name(tmp_path / "merged_train_dataset.jsonl") == "atpo_rl"
    assert source_name(tmp_path / "mine.jsonl") == "mine"


def test_the_command_lists_and_downloads_nothing_unasked(tmp_path, capsys, monkeypatch):
    def connect(*_, **__):
        raise AssertionError("the network was used")

    monkeypatch.setattr("socket.create_connection", connect)
    monkeypatch.setenv("PCQC_DATA", str(tmp_path))
    assert main(["data", "fetch"]) == 0
    printed = capsys.readouterr().out
    assert all(f"{name}: " in printed for name in load_sources())
    assert printed.count("licence: ") == len(load_sources())
    assert main(["data", "fetch", "medqa", "nonsense"]) == 2
    assert "no source 'nonsense'; known are atpo_rl, " in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_command_puts_files_in_the_data_folder(source, tmp_path, monkeypatch):
    monkeypatch.setattr("data_prep.sources.load_sources", lambda: {"cases": source})
    monkeypatch.setenv("PCQC_DATA", str(tmp_path / "data"))
    assert main(["data", "fetch", "cases"]) == 0
    assert (tmp_path / "data" / source.file).read_bytes() == CONTENT


def test_rows_of_a_download_are_checked_on_arrival(
    home, source, fixtures, tmp_path, monkeypatch, capsys
):
    """The pinned bytes themselves, whose description asks for another number of rows."""
    home.content = (fixtures / "atpo_dialogues.jsonl").read_bytes()
    digest = hashlib.sha256(home.content).hexdigest()
    pinned = replace(source, bytes=None, sha256=digest, holds=Holds("atpo-dialogues", rows=5))
    monkeypatch.setattr("data_prep.sources.load_sources", lambda: {"cases": pinned})
    assert main(["data", "fetch", "cases", "--to", str(tmp_path)]) == 2
    out, err = capsys.readouterr()
    assert "differs from the published 'cases': it has 4 rows, not 5" in out
    assert "the published 'cases' itself is not what the converters expect, see above (1)" in err
    assert (tmp_path / source.file).exists()
