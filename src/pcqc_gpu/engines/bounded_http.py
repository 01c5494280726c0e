"""Replies that are bounded in time, from connecting to the last byte, and in size."""

import http.client
import io
import time

import urllib3

from pcqc_base.settings import Server

MAX_REPLY = 2**26  # bytes


class _Whole(io.RawIOBase):
    """The bytes of a connection, all to come within its time-out: urllib3's is of a single read."""

    def __init__(self, connection):
        super().__init__()
        self.connection, self.raw = connection, connection.makefile("rb", buffering=0)
        self.end = time.monotonic() + connection.gettimeout()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        if (left := self.end - time.monotonic()) <= 0:
            raise TimeoutError
        self.connection.settimeout(left)
        return self.raw.readinto(buffer)

    def close(self) -> None:
        self.raw.close()
        super().close()


class _Reply(http.client.HTTPResponse):
    """A reply, head and body, within the time-out of its connection."""

    def __init__(self, connection, *arguments, **options):
        super().__init__(connection, *arguments, **options)
        self.fp.close()
        self.fp = io.BufferedReader(_Whole(connection))


def pool(url: str, server: Server) -> urllib3.HTTPConnectionPool:
    """Connections to a server; the time-out is of an attempt, from connecting to the last byte."""
    limit = urllib3.Timeout(total=server.timeout_seconds)
    made = urllib3.connection_from_url(url, block=True, maxsize=server.concurrent, timeout=limit)
    kind = type("Connection", (made.ConnectionCls,), {"response_class": _Reply})
    made.ConnectionCls = kind
    return made


def content_of(reply) -> bytes:
    """A reply's bytes; ValueError if there are more than `MAX_REPLY`."""
    content = reply.read(MAX_REPLY + 1)
    if len(content) > MAX_REPLY:
        reply.close()
        reply.release_conn()  # closed, but still one of the pool's
        raise ValueError(f"a reply of more than {MAX_REPLY} bytes")
    reply.release_conn()
    return content
