"""Many streams over one pair of pipes."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from lm_tools_bridge.remote_hosts.tunnel.carrier import (
    EXPECTED_S,
    IDLE_BYTES,
    IDLE_FRAMES,
    LINE_WINDOW,
    MAX_BACKLOG,
    MAX_STREAMS,
    PIPE_ROOM,
    STREAM_WINDOW,
    Carrier,
)
from lm_tools_bridge.remote_hosts.tunnel.stream import StreamOwner, TunnelStream


class Pipe:
    """One direction: what was written waits until it is delivered."""

    def __init__(self) -> None:
        self.written = bytearray()
        self.is_aborted = False

    def write(self, data: bytes) -> None:
        self.written += data

    def get_write_buffer_size(self) -> int:
        return len(self.written)

    def abort(self) -> None:
        self.is_aborted = True


class Owner:
    """The owner of a stream, which takes what arrives only while it reads."""

    def __init__(self, stream: TunnelStream, *, echoes: bool = False) -> None:
        self.stream = stream
        self.received = bytearray()
        self.reads = True
        self.has_ended = False
        self.lost: bool | None = None
        self._echoes = echoes

    def stream_data(self, data: bytes) -> None:
        self.received += data
        if self.reads:
            self.stream.taken(len(data))
        if self._echoes:
            self.stream.write(data)

    def stream_ended(self) -> None:
        self.has_ended = True
        if self._echoes:
            self.stream.end()

    def stream_lost(self, *, is_line: bool) -> None:
        self.lost = is_line

    def stream_writable(self) -> None:
        """Nothing waits for that here."""


class Line:
    """Both ends, and the two pipes between them."""

    def __init__(self, *, accepts: bool = True, echoes: bool = False) -> None:
        self.now = 0.0
        self.there, self.back = Pipe(), Pipe()
        self.ended: list[str] = []
        self.far_owners: list[Owner] = []

        def on_stream(stream: TunnelStream, target: str) -> StreamOwner | None:
            if not accepts or target != "mcp":
                return None
            self.far_owners.append(Owner(stream, echoes=echoes))
            self.far.accept(stream)
            return self.far_owners[-1]

        self.near = Carrier(self.there, is_client=True, on_closed=self.ended.append, now=lambda: self.now)
        self.far = Carrier(
            self.back, is_client=False, on_closed=self.ended.append, now=lambda: self.now, on_stream=on_stream
        )
        self.near.start()
        self.far.start()
        self.pump()

    def open(self, target: str = "mcp") -> Owner:
        made: list[Owner] = []

        def owner(stream: TunnelStream) -> Owner:
            made.append(Owner(stream))
            return made[0]

        self.near.open_stream(target, owner)
        return made[0]

    def pump(self, size: Callable[[], int] = lambda: 1 << 30) -> None:
        """Deliver everything, in pieces of these sizes."""
        while self.there.written or self.back.written:
            for pipe, end, other in ((self.there, self.far, self.near), (self.back, self.near, self.far)):
                piece = bytes(pipe.written[: size()])
                del pipe.written[: len(piece)]
                if piece:
                    end.feed(piece)
                other.flush()


def test_bytes_arrive_in_order_however_the_pipe_cuts_them() -> None:
    chance = random.Random(7)
    line = Line(echoes=True)
    sent = [chance.randbytes(chance.randrange(1, 200_000)) for _ in range(8)]
    owners = [line.open() for _ in sent]
    for owner, data in zip(owners, sent, strict=True):
        for at in range(0, len(data), 30_000):
            owner.stream.write(data[at : at + 30_000])
        owner.stream.end()
    line.pump(lambda: chance.choice([1, 2, 9, 100, 5_000, 70_000]))
    assert [bytes(owner.received) for owner in owners] == sent
    assert all(owner.has_ended for owner in owners)
    assert line.near.stream_count == line.far.stream_count == 0


def test_a_stream_that_nobody_reads_holds_its_window_alone() -> None:
    line = Line()
    slow, other = line.open(), line.open()
    line.pump()
    line.far_owners[0].reads = False
    slow.stream.write(b"x" * (3 * STREAM_WINDOW))
    other.stream.write(b"y" * (3 * STREAM_WINDOW))
    line.pump()
    assert len(line.far_owners[0].received) == STREAM_WINDOW
    assert len(line.far_owners[1].received) == 3 * STREAM_WINDOW
    line.far_owners[0].stream.taken(STREAM_WINDOW)
    line.far_owners[0].reads = True
    line.pump()
    assert len(line.far_owners[0].received) == 3 * STREAM_WINDOW


def test_room_of_a_dropped_stream_is_given_back_to_the_line() -> None:
    line = Line()
    for _ in range(2 * LINE_WINDOW // STREAM_WINDOW):
        owner = line.open()
        line.pump()
        line.far_owners[-1].reads = False
        owner.stream.write(b"x" * STREAM_WINDOW)
        line.pump()
        line.far_owners[-1].stream.reset()
        line.pump()
    last = line.open()
    last.stream.write(b"z" * STREAM_WINDOW)
    line.pump()
    assert len(line.far_owners[-1].received) == STREAM_WINDOW


def test_no_more_is_framed_than_the_pipe_takes() -> None:
    line = Line()
    owner = line.open()
    owner.stream.write(b"x" * STREAM_WINDOW)
    assert len(line.there.written) < PIPE_ROOM + 100_000
    assert owner.stream.pending_size > 0
    line.pump()
    assert len(line.far_owners[0].received) == STREAM_WINDOW


def test_many_streams_share_a_narrow_pipe() -> None:
    line = Line()
    owners = [line.open() for _ in range(4)]
    for owner in owners:
        owner.stream.write(b"x" * STREAM_WINDOW)
    line.pump(lambda: 10_000)
    assert [len(owner.received) for owner in line.far_owners] == [STREAM_WINDOW] * 4


def test_a_reset_reaches_the_owner_on_the_other_side() -> None:
    line = Line()
    owner = line.open()
    owner.stream.write(b"call")
    line.pump()
    owner.stream.reset()
    line.pump()
    assert line.far_owners[0].lost is False
    assert line.near.stream_count == line.far.stream_count == 0


def test_an_unknown_target_is_refused() -> None:
    line = Line()
    owner = line.open("etc/passwd")
    line.pump()
    assert owner.lost is False
    assert not line.ended


def test_streams_over_the_limit_are_refused_without_harm() -> None:
    line = Line()
    for _ in range(MAX_STREAMS):
        line.open()
    line.pump()
    with pytest.raises(ConnectionRefusedError):
        line.open()
    assert not line.ended


def test_all_streams_are_lost_with_the_line() -> None:
    line = Line()
    owners = [line.open(), line.open()]
    line.pump()
    line.near.close("cut")
    assert [owner.lost for owner in owners] == [True, True]
    assert line.ended == ["cut"]
    assert line.there.is_aborted
    with pytest.raises(ConnectionResetError):
        line.open()


@pytest.mark.parametrize(
    "garbage",
    [b"HTTP/1.1 400 Bad Request\r\n".ljust(5_000_000), b"\xff" * (2**24 + 9), b"\0" * 100],
    ids=["another protocol", "a frame of any length", "zeros"],
)
def test_garbage_ends_the_line_and_nothing_else(garbage: bytes) -> None:
    line = Line()
    owner = line.open()
    line.near.feed(garbage)
    assert owner.lost is True
    assert len(line.ended) == 1
    line.near.feed(garbage)


def test_the_other_side_cannot_open_streams_here() -> None:
    line = Line()
    for _ in range(100):
        line.far.open_stream("mcp", Owner).write(b"call")
    line.pump()
    assert line.near.stream_count == 0


@pytest.mark.parametrize(
    "frame",
    [
        b"\x00\x00\x08\x06\x00\x00\x00\x00\x00" + b"12345678",
        b"\x00\x00\x00\x04\x00\x00\x00\x00\x00",
        b"\x00\x00\x00\x00\x00\x00\x00\x00\x01",
        b"\x00\x00\x01\x70\x00\x00\x00\x00\x00" + b"x",
        b"\x00\x00\x00\x04\x01\x00\x00\x00\x00",
        b"\x00\x00\x05\x02\x00\x00\x00\x00\x01\x00\x00\x00\x00\x10",
    ],
    ids=["pings", "settings", "empty data", "unknown frames", "settings taken", "priorities"],
)
def test_a_flood_of_frames_without_content_ends_the_line(frame: bytes) -> None:
    line = Line()
    line.open()
    line.pump()
    for _ in range(IDLE_FRAMES // 100 + 2):
        line.near.feed(frame * 100)
    assert line.ended == ["the other side floods the line"]


@pytest.mark.parametrize(
    "frame",
    [
        b"\x00\x00\x04\x08\x00\x00\x00\x00\x00\x00\x00\x00\x01",
        b"\x00\x00\x04\x03\x00\x00\x00\x00\x01\x00\x00\x00\x08",
        b'\x00\x00\x08\x0a\x00\x00\x00\x00\x01\x00\x00h2=":1',
    ],
    ids=["windows", "resets", "other services"],
)
def test_much_that_is_no_content_ends_the_line(frame: bytes) -> None:
    line = Line()
    line.open()
    line.pump()
    line.near.feed(frame * (2 * IDLE_BYTES // len(frame)))
    assert line.ended == ["the other side floods the line"]


def test_a_host_that_admits_no_stream_is_refused_without_harm() -> None:
    line = Line()
    line.near.feed(b"\x00\x00\x06\x04\x00\x00\x00\x00\x00" + b"\x00\x03\x00\x00\x00\x00")
    with pytest.raises(ConnectionRefusedError):
        line.open()
    assert not line.ended


def test_a_host_that_gives_no_room_holds_its_own_stream_alone() -> None:
    line = Line()
    line.near.feed(b"\x00\x00\x06\x04\x00\x00\x00\x00\x00" + b"\x00\x04\x00\x00\x00\x00")
    owner = line.open()
    owner.stream.write(b"x" * 1000)
    line.pump()
    assert (owner.stream.pending_size, bytes(line.far_owners[0].received), line.ended) == (1000, b"", [])


def test_a_host_that_does_not_read_ends_the_line() -> None:
    line = Line()
    line.open()
    line.pump()
    ping = b"\x00\x00\x08\x06\x00\x00\x00\x00\x00" + b"12345678"
    line.there.written += b"x" * MAX_BACKLOG
    line.near.feed(ping)
    assert line.ended == ["the other side does not read"]


def test_large_answers_that_are_dropped_on_their_way_are_no_flood() -> None:
    line = Line()
    for _ in range(3):
        owner = line.open()
        line.pump()
        answer = Pipe()
        line.far_owners[-1].stream.write(b"x" * STREAM_WINDOW)
        while line.back.written or line.far_owners[-1].stream.pending_size:
            answer.written += line.back.written
            line.back.written.clear()
            line.far.flush()
        owner.stream.reset()
        line.near.feed(bytes(answer.written))
        line.pump()
    assert (owner.received, line.ended) == (b"", [])
    line.open().stream.write(b"next")
    line.pump()
    assert (line.far_owners[-1].received, line.ended) == (b"next", [])


def test_dropped_streams_are_no_licence_to_flood() -> None:
    line = Line()
    for _ in range(20):
        owner = line.open()
        line.pump()
        owner.stream.reset()
        line.pump()
    window = b"\x00\x00\x04\x08\x00\x00\x00\x00\x00\x00\x00\x00\x01"
    line.now += EXPECTED_S
    line.near.feed(window * (2 * IDLE_BYTES // len(window)))
    assert line.ended == ["the other side floods the line"]


def test_content_is_no_flood_however_fast_it_comes() -> None:
    line = Line()
    owner = line.open()
    line.pump()
    for _ in range(64):
        line.far_owners[0].stream.write(b"x" * (IDLE_BYTES // 2))
        line.pump()
    assert (len(owner.received), line.ended) == (32 * IDLE_BYTES, [])


def test_fields_that_are_no_text_end_the_line() -> None:
    line = Line()
    owner = line.open()
    line.near.feed(b"\x00\x00\x06\x01\x04\x00\x00\x00\x01\x88\x00\x01x\x01\xff")
    assert (owner.lost, line.ended) == (True, ["the other side broke the protocol (UnicodeDecodeError)"])


def test_pings_now_and_then_are_answered() -> None:
    line = Line()
    for _ in range(2 * IDLE_FRAMES):
        line.now += 0.1
        line.far.ping()
        line.pump()
    assert not line.ended


def test_a_ping_measures_the_line() -> None:
    line = Line()
    line.near.ping()
    line.near.ping()
    line.now = 0.25
    line.pump()
    assert line.near.latency_s == 0.25


def test_silence_can_be_told_from_the_time_of_the_last_byte() -> None:
    line = Line()
    line.now = 9.0
    line.far.ping()
    line.pump()
    assert line.near.heard_at == 9.0
