"""Tests of the budget of bytes in large buffers."""

from __future__ import annotations

from lm_tools_bridge.http_server.byte_budget import ByteBudget, Room


class Clients:
    """A budget of 100 bytes, and the rooms that were granted after a wait, by name."""

    def __init__(self) -> None:
        self.budget = ByteBudget(100)
        self.granted: list[str] = []

    def ask(self, client: str, size: int, name: str = "") -> Room:
        return self.budget.reserve(client, size, lambda: self.granted.append(name or client))


def test_room_is_granted_at_once_until_the_limit_and_then_when_other_room_is_given_back() -> None:
    clients = Clients()
    first, second = clients.ask("a", 60), clients.ask("b", 50)
    assert (first.is_granted, second.is_granted, clients.budget.is_short) == (True, False, True)
    first.release()
    assert (second.is_granted, clients.granted, clients.budget.is_short) == (True, ["b"], False)
    assert (clients.budget.in_use, clients.budget.peak) == (50, 60)
    second.release()
    second.release()
    assert clients.budget.in_use == 0


def test_a_room_keeps_nothing_of_its_owner_once_it_is_granted_or_given_back() -> None:
    clients = Clients()
    first, second, third = clients.ask("a", 60), clients.ask("b", 50), clients.ask("c", 50)
    first.release()
    third.release()
    assert [one.on_granted for one in (first, second, third)] == [None, None, None]


def test_clients_take_turns_however_much_one_of_them_asks_for() -> None:
    clients = Clients()
    held = clients.ask("x", 100)
    waiting = [clients.ask("greedy", 100, f"greedy {number}") for number in range(3)]
    waiting.append(clients.ask("modest", 100))
    held.release()
    for _ in range(3):
        next(room for room in waiting if room.is_granted).release()
    assert clients.granted == ["greedy 0", "modest", "greedy 1", "greedy 2"]


def test_a_client_beyond_its_share_holds_up_only_itself() -> None:
    clients = Clients()
    first, second, other = clients.ask("greedy", 40), clients.ask("greedy", 40), clients.ask("other", 40)
    assert (second.is_granted, other.is_granted) == (False, True)
    first.release()
    assert second.is_granted


def test_small_rooms_do_not_pass_a_large_one_that_waits() -> None:
    clients = Clients()
    held = clients.ask("a", 50)
    large, small = clients.ask("b", 80), clients.ask("c", 10)
    assert (large.is_granted, small.is_granted) == (False, False)
    held.release()
    assert (large.is_granted, small.is_granted) == (True, True)


def test_a_wait_that_ends_lets_those_behind_it_pass() -> None:
    clients = Clients()
    clients.ask("a", 50)
    large, small = clients.ask("b", 80), clients.ask("c", 10)
    large.release()
    assert (large.is_granted, small.is_granted, clients.granted) == (False, True, ["c"])


def test_room_for_more_than_the_limit_is_granted_when_no_other_is() -> None:
    clients = Clients()
    held = clients.ask("a", 1)
    huge = clients.ask("b", 1_000_000)
    assert not huge.is_granted
    held.release()
    assert huge.is_granted


def test_bytes_that_are_there_already_count_without_a_wait() -> None:
    clients = Clients()
    unread = clients.budget.count("a", 90)
    waits = clients.ask("b", 50)
    assert (clients.budget.in_use, waits.is_granted) == (90, False)
    unread.resize(40)
    assert (clients.budget.in_use, waits.is_granted) == (90, True)
    unread.resize(200)
    assert clients.budget.in_use == 250
