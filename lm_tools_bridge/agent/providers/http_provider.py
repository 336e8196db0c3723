"""Asks a model server over HTTP: the shell that all dialects share, with deadlines, retries and failures.

A request is repeated only while nothing of the reply has been passed on. Redirects are not followed, since
they would take the key elsewhere.
"""

from __future__ import annotations

import asyncio
import io
import math
import random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any, Final

import aiohttp
import msgspec
from yarl import URL

from lm_tools_bridge.agent.messages import ModelEvent, ModelRequest, ModelWindow, ProviderFailure
from lm_tools_bridge.agent.provider_keys import Key, KeyLookup
from lm_tools_bridge.agent.providers.addresses import Deadlines, Endpoint
from lm_tools_bridge.agent.providers.dialects.dialect import (
    PATHS,
    CallIds,
    Dialect,
    ReplyError,
    encoded,
    model_names,
)
from lm_tools_bridge.agent.providers.failures import (
    LONGEST_WAIT_S,
    RETRYABLE,
    Failures,
    out_of_credit,
    retry_after,
)
from lm_tools_bridge.agent.providers.framing import Documents, Form, joined_texts
from lm_tools_bridge.backoff import backoff

FRAME_S: Final = 0.03
"""Seconds between two reads of a fast reply: shorter than a person sees."""


class PacedReading:
    """The bytes of one reply.

    What arrives after a pause is read at once. As soon as two reads lie in one frame, the next one waits for
    the end of the frame, and the connection rests meanwhile.

    Args:
        response: the reply's.
        now: seconds; by default those of the running loop.
        sleep: waits for a number of seconds.
    """

    def __init__(
        self,
        response: aiohttp.ClientResponse,
        *,
        now: Callable[[], float] | None = None,
        sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep,
    ) -> None:
        self._response = response
        self._now = now or asyncio.get_running_loop().time
        self._sleep = sleep
        self._last = -math.inf
        self._rests = False

    async def next(self) -> bytes:
        """The next bytes; none at the end. Raises what `aiohttp.StreamReader.readany` raises."""
        if self._rests:
            await self._rest(self._last + FRAME_S - self._now())
        chunk = await self._response.content.readany()
        now = self._now()
        self._rests = now - self._last < (2 * FRAME_S if self._rests else FRAME_S)
        self._last = now
        return chunk

    async def _rest(self, seconds: float) -> None:
        connection = self._response.connection
        transport = connection.transport if connection is not None else None
        if seconds <= 0 or not isinstance(transport, asyncio.ReadTransport):
            return  # the reply has arrived already
        transport.pause_reading()
        try:
            await self._sleep(seconds)
        finally:
            transport.resume_reading()


class ReplyClock:
    """The deadlines of one attempt. Only the time that is spent waiting for the server can exceed them."""

    def __init__(self, deadlines: Deadlines, failures: Failures, *, streams: bool) -> None:
        now = asyncio.get_running_loop().time()
        self._deadlines = deadlines
        self._failures = failures
        self._whole = now + deadlines.answer_s
        # a reply that is not streamed begins when it is complete
        self._first = now + deadlines.first_byte_s if streams else self._whole

    def began(self) -> None:
        """The first byte is there."""
        self._first = self._whole

    async def within(self, waiting: Awaitable[Any]) -> Any:
        """The result of what is waited for. Raises ProviderFailure at the deadline."""
        try:
            async with asyncio.timeout_at(min(self._first, self._whole)):
                return await waiting
        except aiohttp.ConnectionTimeoutError:
            raise
        except TimeoutError:
            if self._first < self._whole:
                raise self._failures.first_byte_late(self._deadlines.first_byte_s) from None
            raise self._failures.answer_late(self._deadlines.answer_s) from None


@dataclass(frozen=True, slots=True)
class Retries:
    """How one provider repeats requests.

    Attributes:
        on_wait: is told why, before a pause between two attempts.
        sleep: sleeps for a number of seconds.
        chance: a random number in [0, 1).
    """

    on_wait: Callable[[str], None] = lambda _: None
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    chance: Callable[[], float] = random.random

    async def pause(self, what: str, attempts: int, wait_s: float | None) -> None:
        """Say what happened, and wait: as long as the server asks, else longer after each attempt."""
        seconds = backoff(attempts, self.chance()) if wait_s is None else wait_s
        self.on_wait(f"{what}; trying again in {seconds:.0f} s")
        await self.sleep(seconds)


RETRIES: Final = 3
"""With growing pauses, three cover a provider that is overloaded for some seconds; then the person decides.
"""
# a model server may send without end: an error is only quoted in part, a reply may bring pictures as base64
_LARGEST_ERROR: Final = 64 * 1024
_LARGEST_REPLY: Final = 64 * 1024 * 1024
_WINDOW_S: Final = 3.0
_MODELS_S: Final = 10.0


class _Again(Exception):
    """An attempt failed in a way that may pass; `wait_s` is how long the server asks to wait."""

    def __init__(self, failure: ProviderFailure, wait_s: float | None) -> None:
        super().__init__()
        self.failure = failure
        self.wait_s = wait_s


class HttpProvider:
    """A model server in one dialect; a `Provider` and a `WindowSource`.

    Args:
        endpoint: where it is.
        dialect: what it speaks.
        session: for its connections; shared, and not closed here.
        keys: where its key is looked up, anew for each reply.
        deadlines: its longest times.
        retries: how requests are repeated.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        dialect: Dialect,
        session: aiohttp.ClientSession,
        keys: KeyLookup,
        deadlines: Deadlines,
        *,
        retries: Retries,
    ) -> None:
        self.name = endpoint.name
        self.dialect = dialect
        self._endpoint = endpoint
        self._session = session
        self._keys = keys
        self._deadlines = deadlines
        self._retries = retries
        self._windows: dict[str, ModelWindow] = {}

    async def reply(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """See `Provider`."""
        failures, key = await self._with_key(request.model)
        attempts = 0
        while True:
            began = False
            try:
                async with aclosing(self._attempt(request, failures, key)) as events:
                    async for event in events:
                        began = True
                        yield event
                return
            except _Again as again:
                attempts += 1
                if began or attempts > RETRIES:
                    raise again.failure from None
                await self._retries.pause(f"{self.name}: {again.failure.cause}", attempts, again.wait_s)

    async def context_window(self, model: str) -> ModelWindow | None:
        """See `WindowSource`."""
        if (question := self.dialect.window_request(model)) is None:
            return None
        if model not in self._windows:
            with suppress(ProviderFailure, aiohttp.ClientError, OSError, ValueError, TimeoutError):
                async with asyncio.timeout(_WINDOW_S):
                    document = await self._document(model, *question)
                largest = self.dialect.window(document, model)
                self._windows[model] = ModelWindow(largest, chosen=self._endpoint.kind == "ollama")
        return self._windows.get(model)

    async def models(self) -> tuple[str, ...]:
        """The names of its models; empty if it has none, or does not tell them. Raises ProviderFailure."""
        kind = self._endpoint.kind
        if kind not in PATHS:
            return ()
        try:
            async with asyncio.timeout(_MODELS_S):
                document = await self._document("", PATHS[kind], None)
        except (ValueError, TimeoutError):
            return ()
        except (aiohttp.ClientError, OSError) as error:
            failures, _ = await self._with_key("")
            failure = self._not_connected(error, failures)
            raise (failure.failure if isinstance(failure, _Again) else failure) from None
        return model_names(kind, document)

    async def _document(self, model: str, path: str, body: dict[str, Any] | None) -> Any:
        _, key = await self._with_key(model)
        method = "GET" if body is None else "POST"
        async with self._open(method, path, key, None if body is None else encoded(body)) as response:
            return msgspec.json.decode(await response.read()) if response.status == 200 else None

    async def _with_key(self, model: str) -> tuple[Failures, Key | None]:
        place = self._endpoint
        lookup = await self._keys.find(place.key)
        value = lookup.key.value if lookup.key is not None else None
        failures = Failures(self.name, place.kind, place.shown_base, model, place.key_hint, value)
        if lookup.key is None and place.needs_key:
            raise failures.missing_key("; ".join(lookup.problems))
        if lookup.key is not None and not _sendable(lookup.key.value):
            raise failures.bad_key(lookup.key.source_detail)
        return failures, lookup.key

    def _open(self, method: str, path: str, key: Key | None, body: bytes | None) -> Any:
        return self._session.request(
            method,
            URL(_joined(self._endpoint.base, path), encoded=True),
            data=None if body is None else io.BytesIO(body),  # bytes of more than 1 MiB are warned of
            headers={"Content-Type": "application/json", **self.dialect.headers(key.value if key else None)},
            timeout=aiohttp.ClientTimeout(
                total=None, connect=self._deadlines.connect_s, sock_connect=self._deadlines.connect_s
            ),
            allow_redirects=False,
        )

    async def _attempt(
        self, request: ModelRequest, failures: Failures, key: Key | None
    ) -> AsyncGenerator[ModelEvent]:
        clock = ReplyClock(self._deadlines, failures, streams=request.stream)
        path = self.dialect.path(request.model, stream=request.stream)
        body = encoded(self.dialect.body(request))
        try:
            opening = self._open("POST", path, key, body)
            response = await clock.within(opening)
        except (aiohttp.ClientError, OSError) as error:
            raise self._not_connected(error, failures) from None
        async with response:
            if response.status != 200:
                raise await self._refused(response, failures, clock)
            if response.content_type == "text/html":
                raise failures.page()
            form: Form = self.dialect.framing if request.stream else "whole"
            if form == "sse" and response.content_type == "application/json":
                form = "whole"  # of a server that does not stream
            async with aclosing(self._events(request, response, form, clock, failures)) as events:
                async for event in events:
                    yield event

    async def _events(
        self,
        request: ModelRequest,
        response: aiohttp.ClientResponse,
        form: Form,
        clock: ReplyClock,
        failures: Failures,
    ) -> AsyncGenerator[ModelEvent]:
        documents, reader = Documents(form), self.dialect.reader(CallIds(request.messages))
        reading, size = PacedReading(response), 0
        try:
            while chunk := await clock.within(reading.next()):
                clock.began()
                size += len(chunk)
                if size > _LARGEST_REPLY:
                    raise failures.unusable(f"the reply is larger than {_LARGEST_REPLY >> 20} MiB")
                for event in joined_texts(reader.read(document) for document in documents.feed(chunk)):
                    yield event
        except ReplyError as error:
            raise failures.unusable(str(error)) from None
        except (aiohttp.ClientError, OSError):
            raise failures.cut() from None
        try:
            events = [event for document in documents.end() for event in reader.read(document)]
            events += reader.end()
        except ReplyError as error:
            raise (failures.unusable(str(error)) if form == "whole" else failures.cut()) from None
        for event in events:
            yield event

    async def _refused(
        self, response: aiohttp.ClientResponse, failures: Failures, clock: ReplyClock
    ) -> Exception:
        status = response.status
        if 300 <= status < 400:
            return failures.moved(status)
        body = b""
        with suppress(aiohttp.ClientError, OSError):
            while len(body) < _LARGEST_ERROR and (chunk := await clock.within(response.content.readany())):
                body += chunk
        wait_s = retry_after(response.headers, time.time())
        failure = failures.status(status, body, wait_s)
        passes = status in RETRYABLE and not out_of_credit(body) and (wait_s or 0) <= LONGEST_WAIT_S
        return _Again(failure, wait_s) if passes else failure

    def _not_connected(self, error: aiohttp.ClientError | OSError, failures: Failures) -> Exception:
        if isinstance(error, aiohttp.ConnectionTimeoutError):
            return failures.connect_late(self._deadlines.connect_s)
        if isinstance(error, aiohttp.ClientConnectorDNSError):
            return failures.unreachable("its name is unknown")
        if isinstance(error, aiohttp.ClientSSLError):
            return failures.unreachable("its certificate is not accepted")
        if isinstance(error, aiohttp.ClientConnectorError):
            refused = isinstance(error.os_error, ConnectionRefusedError)
            reason = error.os_error.strerror or "the connection failed"
            return failures.refused() if refused else failures.unreachable(reason)
        if isinstance(error, aiohttp.InvalidURL):
            return failures.unreachable("it is not an address")
        # a kept connection that the server closed meanwhile, or a server that fell
        return _Again(failures.unreachable("the connection was closed"), None)


def _joined(base: str, path: str) -> str:
    return base.rstrip("/") + path


def _sendable(key: str) -> bool:
    return key.isascii() and key.isprintable()
