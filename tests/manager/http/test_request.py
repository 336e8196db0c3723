"""The requests that are being answered, and what happens to others while the manager stops."""

from __future__ import annotations

import json
from unittest.mock import Mock

import pytest

from manager.http.request import OpenRequests
from support.clients.exchanges import session_of


@pytest.mark.parametrize("identity", [b"7", None])
def test_a_request_of_any_method_is_refused_in_the_same_words_while_the_manager_stops(
    identity: bytes | None,
) -> None:
    requests, http_request = OpenRequests(), Mock()
    assert not requests.refuse_when_draining(http_request, identity)
    http_request.respond.assert_not_called()
    requests.is_draining = True
    assert requests.refuse_when_draining(http_request, identity)
    status, body, fields = http_request.respond.call_args.args
    error = json.loads(body)
    assert (status, fields, error["id"]) == (503, {"Retry-After": "1"}, None if identity is None else 7)
    assert error["error"]["data"]["delivered"] == "no"


def test_no_request_may_begin_while_the_manager_stops() -> None:
    requests = OpenRequests()
    assert requests.may_begin(None, b"1")
    requests.is_draining = True
    assert not requests.may_begin(None, b"1")


def test_an_id_may_begin_again_once_its_request_has_ended() -> None:
    requests, session = OpenRequests(), session_of()
    requests.begin(session, b"1", lambda: None)
    assert (requests.may_begin(session, b"1"), requests.may_begin(session, b"2")) == (False, True)
    requests.end(session, b"1")
    assert requests.may_begin(session, b"1")


async def test_it_is_drained_when_the_last_request_has_ended() -> None:
    requests = OpenRequests()
    requests.begin(None, b"1", lambda: None)
    assert not await requests.drained(0)
    requests.end(None, b"1")
    assert await requests.drained(60)
