"""Publishes of several clients in one turn of the loop."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from tidings.model.event import make_event
from tidings.protocol.limits import ResourceLimits
from tidings.protocol.messages import Fence, Message, Publish
from tidings.runtime.fairness import Fairness, TimeShare
from tidings.runtime.local_clients import FEW, FEW_BYTES, LocalClient, PublishTurn


class _Driver:
    def __init__(self) -> None:
        self.batches: list[list[tuple[str, list[Message]]]] = []

    def receive_publishes(self, batches: list[tuple[str, list[Message]]]) -> None:
        self.batches.append(batches)

    def receive(self, address: str, messages: list[Message]) -> None:
        self.batches.append([(address, messages)])

    def link_up(self, address: str, outlet: object) -> None:
        pass

    def link_down(self, address: str) -> None:
        pass


class _Client:
    def __init__(self, address: str) -> None:
        self.address = address
        self.share = TimeShare(address)


def _publishes(*calls: int) -> list[Any]:
    return [Publish(call, make_event({}, source="c", id=str(call)), call) for call in calls]


class _Coalescer:
    """The end of a turn, by hand."""

    def __init__(self) -> None:
        self.is_alone = False
        self.callbacks: list[Callable[[], None]] = []
        self.soon = self.callbacks.append


def _turn(most: int = 100) -> tuple[PublishTurn, _Driver, _Coalescer]:
    driver, coalescer = _Driver(), _Coalescer()
    fairness, limits = Fairness(later=lambda seconds, callback: None), ResourceLimits(publishes_together=most)
    return PublishTurn(driver, coalescer, limits, fairness), driver, coalescer  # type: ignore[arg-type]


def test_publishes_of_one_turn_are_one_batch_in_the_order_they_came() -> None:
    turn, driver, coalescer = _turn()
    clients: list[Any] = [_Client(f"c{number}") for number in range(64)]
    for client in clients:
        assert turn.is_added(client, _publishes(1))
    assert (driver.batches, len(coalescer.callbacks)) == ([], 1)
    coalescer.callbacks.pop()()
    [batch] = driver.batches
    assert [address for address, _ in batch] == [client.address for client in clients]
    assert all(client.share.used > 0 for client in clients)


def test_a_batch_is_bounded_and_an_early_flush_leaves_nothing_behind() -> None:
    turn, driver, coalescer = _turn(most=3)
    client: Any = _Client("c")
    assert turn.is_added(client, _publishes(1, 2))
    assert turn.is_added(client, _publishes(3, 4))
    assert len(driver.batches) == 1
    turn.flush()
    for callback in coalescer.callbacks:
        callback()
    assert [message.call for batch in driver.batches for _, some in batch for message in some] == [1, 2, 3, 4]  # type: ignore[attr-defined]


def test_a_publish_does_not_wait_in_a_turn_without_other_callbacks() -> None:
    turn, _, coalescer = _turn()
    client: Any = _Client("c")
    coalescer.is_alone = True
    assert not turn.is_added(client, _publishes(1))
    coalescer.is_alone = False
    assert turn.is_added(client, _publishes(1))
    coalescer.is_alone = True
    assert turn.is_added(client, _publishes(2))


def _local_client(address: str, turn: PublishTurn, guard: Any = None) -> LocalClient:
    fairness = SimpleNamespace(join=TimeShare, leave=lambda share: None, charge=lambda share, seconds: None)
    reading: Any = SimpleNamespace(
        fairness=fairness, add=lambda address, share: None, remove=lambda address: None
    )
    session: Any = SimpleNamespace(
        close=lambda: None, principal=SimpleNamespace(name="guest", tenant="", scope="guest")
    )
    client = LocalClient(address, session, turn, guard, reading, lambda: None, lambda reason: None)
    ingress: Any = SimpleNamespace(
        inward=lambda messages: messages, outlet=lambda send: send, inbox="", close=lambda: None
    )
    client.open(ingress, set())
    return client


def test_another_message_follows_the_publishes_that_wait_in_its_turn() -> None:
    """Of each client the order holds: what it sends after a publish is not handled before it."""
    turn, driver, coalescer = _turn()
    one, other = _local_client("one", turn), _local_client("other", turn)
    one.receive_all(_publishes(1))
    other.receive_all(_publishes(2))
    assert driver.batches == [], "they wait for the end of the turn"
    one.receive(Fence(1, 1))
    assert [[address for address, _ in batch] for batch in driver.batches] == [["one", "other"], ["one"]]
    assert type(driver.batches[1][0][1][0]) is Fence
    for callback in coalescer.callbacks:
        callback()
    assert len(driver.batches) == 2, "and are handed in once"


def test_a_few_publishes_of_a_connection_wait_and_all_else_follows_them() -> None:
    turn, driver, coalescer = _turn()
    one, other = _Client("one"), _Client("other")
    turn.receive(one, _publishes(1))
    turn.receive(other, _publishes(*range(FEW)))
    assert driver.batches == [], "they wait for the end of the turn"
    turn.receive(one, [*_publishes(2), Fence(1, 1)])
    assert [[address for address, _ in batch] for batch in driver.batches] == [["one", "other"], ["one"]]
    turn.receive(other, _publishes(*range(FEW + 1)))
    assert [address for address, _ in driver.batches[2]] == ["other"], "many gain nothing by waiting"
    turn.receive(one, _publishes(3))
    assert len(driver.batches) == 3
    coalescer.callbacks[-1]()
    assert [address for address, _ in driver.batches[3]] == ["one"]


def test_every_byte_is_charged_few_of_them_later() -> None:
    """Small reads are charged together, and the rest when the client leaves."""
    charged: list[int] = []

    def charge(principal: object, count: int) -> float:
        charged.append(count)
        return 2.0

    guard = SimpleNamespace(charge=charge, disconnected=lambda principal: None)
    client = _local_client("c", _turn()[0], guard)
    assert client.charge(FEW_BYTES - 1) == 0.0
    assert client.charge(1) == 2.0
    assert client.charge(7) == 0.0
    client.close()
    assert charged == [FEW_BYTES, 7]
