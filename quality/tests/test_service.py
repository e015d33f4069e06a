"""Organisations over HTTP: notifications once through restarts, permissions, pluggable parts."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, ClassVar

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

import tidings
from tidings.errors import InputError, RefusedError, StoreLockedError
from tidings.gateway.serving import Serving
from tidings.model.cloudevents import to_mapping
from tidings.model.event import Event
from tidings_quality.client import OrganisationClient
from tidings_quality.interface import UserRequest
from tidings_quality.running_example import running_example
from tidings_quality.settings import PeerOrganisation
from tidings_quality.state import LocalSubscription, OrganisationState
from tidings_quality.subscription import QualitySubscription, parse_subscription

from ._cooperation import PATIENCE, Cooperation, change, cooperation, with_capability

WATCHED = "ON Enterprise/Holder WHERE name.accuracy <= medium"


def keys(events: list[Event]) -> list[Any]:
    return [event.get("change.object") for event in events]


def test_vir5_1_a_change_in_one_organisation_is_heard_once_in_another(tmp_path: Path) -> None:
    async def play() -> None:
        async with cooperation(tmp_path) as made:
            found = await made.subscribe("INPS", WATCHED)
            assert found["pending"] == []
            assert await made.publish(change("a"), change("b", 0.9)) == 2
            assert await made.publish(change("a")) == 0
            assert keys(await made.received("INPS", wait=PATIENCE)) == ["a"]
            await made.until(lambda: not made.sendings("CoC"))
            assert keys(await made.received("INPS")) == ["a"]

    asyncio.run(play())


def test_what_is_not_acknowledged_is_given_again_under_the_same_number(tmp_path: Path) -> None:
    async def play() -> None:
        async with cooperation(tmp_path) as made:
            await made.subscribe("INPS", WATCHED)
            await made.publish(change("a"), change("b"))
            await made.until(lambda: not made.sendings("CoC"))

            def numbers(client: OrganisationClient) -> list[int]:
                return [number for number, _ in client.notifications("u.s")]

            assert await made.ask("INPS", numbers) == [1, 2]
            await made.ask("INPS", lambda client: client.acknowledge("u.s", 1))
            await made.stop("INPS")
            await made.start("INPS")
            assert await made.ask("INPS", numbers) == [2]

    asyncio.run(play())


@pytest.mark.parametrize("away", ["CoC", "INPS"])
def test_restarts_lose_nothing_and_repeat_nothing(tmp_path: Path, away: str) -> None:
    async def play() -> None:
        async with cooperation(tmp_path) as made:
            await made.subscribe("INPS", WATCHED)
            await made.publish(change("a"))
            await made.stop("INPS")
            await made.publish(change("b"))
            if away == "CoC":
                await made.stop("CoC")
                await made.start("CoC")
            await made.start("INPS")
            await made.publish(change("c"), change("a"))
            await made.until(lambda: not made.sendings("CoC"))
            assert sorted(keys(await made.received("INPS"))) == ["a", "b", "c"]

    asyncio.run(play())


def test_a_subscription_made_while_the_producer_is_away_is_told_when_it_comes(tmp_path: Path) -> None:
    async def play() -> None:
        async with cooperation(tmp_path, "INPS", "INAIL") as made:
            found = await made.subscribe("INPS", "ON Enterprise FROM CoC", wait=0.0)
            assert found["pending"] == ["CoC"]
            await made.start("CoC")
            again = await made.subscribe("INPS", "ON Enterprise FROM CoC", wait=PATIENCE)
            assert (again["resumed"], again["pending"]) == (True, [])
            await made.publish(change("a"))
            assert keys(await made.received("INPS", wait=PATIENCE)) == ["a"]

    asyncio.run(play())


def test_a_producer_that_lost_its_state_is_told_everything_again(tmp_path: Path) -> None:
    async def play() -> None:
        async with cooperation(tmp_path, confirm_seconds=0.05) as made:
            await made.subscribe("INPS", WATCHED)
            await made.stop("CoC")
            for file in tmp_path.glob("CoC.db*"):
                file.unlink()
            await made.start("CoC")
            await made.until(lambda: bool(made.services["CoC"].organisation.tables()["external merges"]))
            await made.publish(change("a"))
            assert keys(await made.received("INPS", wait=PATIENCE)) == ["a"]

    asyncio.run(play())


def test_vir5_8_when_a_forwarder_is_away_those_below_it_do_not_wait(tmp_path: Path) -> None:
    schema = with_capability(running_example(), CoC=1, INAIL=2, INPS=1)

    async def play() -> None:
        async with cooperation(tmp_path, schema=schema) as made:
            for name in ("INPS", "INAIL"):
                await made.subscribe(name, WATCHED)
            await made.publish(change("a"))
            for name in ("INPS", "INAIL"):
                assert keys(await made.received(name, wait=PATIENCE)) == ["a"]
            await made.stop("INAIL")  # CoC sends to it alone, and it sends on to INPS
            await made.publish(change("b"))
            await made.until(lambda: made.waiting("INPS") == 2)
            assert keys(await made.received("INPS")) == ["a", "b"]
            assert made.sendings("CoC") == 1
            await made.start("INAIL")
            await made.until(lambda: made.waiting("INAIL") == 2)
            assert keys(await made.received("INAIL")) == ["a", "b"]
            await made.until(lambda: not made.sendings("CoC"))
            assert keys(await made.received("INPS")) == ["a", "b"]

    asyncio.run(play())


def test_an_end_of_a_subscription_reaches_the_producers(tmp_path: Path) -> None:
    async def play() -> None:
        async with cooperation(tmp_path) as made:
            await made.subscribe("INPS", WATCHED)
            assert made.services["CoC"].organisation.tables()["external merges"] == {"INPS": [WATCHED]}
            await made.ask("INPS", lambda client: client.unsubscribe("u.s"))
            await made.until(lambda: not made.services["CoC"].organisation.tables()["external merges"])

    asyncio.run(play())


# -- permissions ------------------------------------------------------------------------------------


def test_who_is_not_known_is_not_heard(tmp_path: Path) -> None:
    async def play() -> None:
        async with cooperation(tmp_path) as made:
            url = f"http://127.0.0.1:{made.ports['CoC']}"
            body = b'{"number": 1, "base": 0, "add": ["ON Enterprise"]}'
            async with httpx.AsyncClient(base_url=url) as client:
                for headers in (
                    {},
                    {"Tidings-Organisation": "INPS"},
                    {"Tidings-Organisation": "INPS", "Authorization": "Bearer CoC-INAIL"},
                    {"Tidings-Organisation": "FBI", "Authorization": "Bearer CoC-INPS"},
                ):
                    for path in ("/edl/changeSub", "/edl/notify"):
                        answer = await client.post(path, content=body, headers=headers)
                        assert answer.status_code == 401
            assert made.services["CoC"].organisation.tables()["external merges"] == {}

    asyncio.run(play())


def test_an_organisation_hears_only_of_classes_that_it_may(tmp_path: Path) -> None:
    async def play() -> None:
        made = Cooperation(tmp_path)
        peers = dict(made.settings("CoC").peers)
        peers["INPS"] = PeerOrganisation(peers["INPS"].url, peers["INPS"].token, ("Enterprise/Holder",))
        peers["INAIL"] = PeerOrganisation(peers["INAIL"].url, peers["INAIL"].token, ())
        made.own["CoC"] = {"peers": peers}
        await made.start("INPS", "INAIL", "CoC")
        await made.subscribe("INPS", "ON Enterprise")
        found = await made.subscribe("INAIL", "ON Enterprise")
        assert found["pending"] == []
        assert found["refused"] == {"CoC": "INAIL may not receive changes of Enterprise"}
        enterprise = change("x").__class__(
            "Enterprise", "CoC", "E", "EntName", "accuracy", 0.1, "1", {"Code": "E"}
        )
        await made.publish(enterprise, change("a"))
        assert keys(await made.received("INPS", wait=PATIENCE)) == ["a"]
        assert made.services["CoC"].organisation.tables()["external merges"].keys() == {"INPS"}
        await made.stop("INPS", "INAIL", "CoC")

    asyncio.run(play())


def test_local_users_show_the_token_of_their_organisation(tmp_path: Path) -> None:
    async def play() -> None:
        made = Cooperation(tmp_path, token="ours")
        await made.start("INPS")
        with pytest.raises(RefusedError, match="only users"):
            await made.ask("INPS", lambda client: client.tables())
        assert (await made.ask("INPS", lambda client: client.tables(), token="ours"))[
            "organisation"
        ] == "INPS"
        await made.stop("INPS")

    asyncio.run(play())


def test_organisations_behind_their_certificates(tmp_path: Path) -> None:
    from tidings.runtime.authority import issue, make_authority
    from tidings.runtime.settings import TlsSettings

    make_authority(tmp_path)

    async def play() -> None:
        made = Cooperation(tmp_path)
        for name in ("INPS", "CoC"):
            issue(tmp_path, name, hosts=("127.0.0.1",), broker=True)
            peers = {
                other: PeerOrganisation(peer.url.replace("http:", "https:"), peer.token)
                for other, peer in made.settings(name).peers.items()
                if other in ("INPS", "CoC")
            }
            secure = TlsSettings(
                certificate=f"{tmp_path}/{name}.pem", key=f"{tmp_path}/{name}.key",
                authority=f"{tmp_path}/authority.pem",
            )  # fmt: skip
            made.own[name] = {"peers": peers, "tls": secure}
        await made.start("INPS", "CoC")
        inps, coc = (made.services[name].organisation for name in ("INPS", "CoC"))
        inps.subscribe(UserRequest(WATCHED, "u", "s"))
        await made.until(lambda: not inps.unconfirmed("u.s"))
        coc.changed([change("a")])
        await made.until(lambda: made.waiting("INPS") == 1)
        await made.stop("INPS", "CoC")

    asyncio.run(play())


def test_one_state_serves_one_process(tmp_path: Path) -> None:
    state = OrganisationState(tmp_path / "x.db")
    with pytest.raises(StoreLockedError, match="in use"):
        OrganisationState(tmp_path / "x.db")
    state.close()
    OrganisationState(tmp_path / "x.db").close()


def test_nobody_tells_of_data_that_is_not_his(tmp_path: Path) -> None:
    async def play() -> None:
        async with cooperation(tmp_path) as made:
            with pytest.raises(InputError, match="is told to CoC"):
                await made.ask("CoC", lambda client: client.publish([change("a", source="INPS")]))
            with pytest.raises(InputError, match="no property"):
                await made.subscribe("INPS", "ON Enterprise WHERE colour = 'red'")
            await made.subscribe("INPS", WATCHED)
            with pytest.raises(RefusedError, match="already"):
                await made.subscribe("INPS", "ON Enterprise")

    asyncio.run(play())


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (lambda delivered: delivered["event"]["data"].pop("change"), "no change of quality"),
        (lambda delivered: delivered["event"]["data"]["change"].pop("property"), "no change of quality"),
        (lambda delivered: delivered["event"]["data"]["change"].update(value="much"), "no change of quality"),
        (lambda delivered: delivered["event"]["data"]["change"].update(value=0.4), "differently"),
        (lambda delivered: delivered["event"].update(source="INPS"), "its own data"),
        (lambda delivered: delivered["event"].update(source="FBI"), "no organisation"),
        (lambda delivered: delivered.update(below=[["INAIL", [["INAIL", []]]]]), "stands twice"),
        (lambda delivered: delivered.update(below=[["FBI", []]]), "no organisation"),
        (lambda delivered: delivered.update(below="all"), "cannot be read"),
    ],
    ids=range(9),
)
def test_what_makes_no_sense_is_refused_and_leaves_no_trace(tmp_path: Path, spoil: Any, problem: str) -> None:
    async def play() -> None:
        made = Cooperation(tmp_path)
        await made.start("INPS")
        delivered: dict[str, Any] = {"event": to_mapping(change("a").as_event()), "below": []}
        spoil(delivered)
        headers = {"Tidings-Organisation": "CoC", "Authorization": "Bearer CoC-INPS"}
        async with httpx.AsyncClient(base_url=made.services["INPS"].address, verify=False) as client:
            answer = await client.post("/edl/notify", json={"notifications": [delivered]}, headers=headers)
        assert answer.status_code == 400
        assert problem in answer.text
        assert made.services["INPS"].organisation.state.figures()["seen"] == 0
        await made.stop("INPS")

    asyncio.run(play())


# -- pluggable parts --------------------------------------------------------------------------------


class Collecting:
    """A dispatcher of our own."""

    taken: ClassVar[list[Event]] = []
    fails = 1

    def __init__(self, one: LocalSubscription) -> None:
        self.one = one

    async def dispatch(self, event: Event) -> None:
        if Collecting.fails:
            Collecting.fails -= 1
            raise InputError("not now")
        Collecting.taken.append(event)

    async def close(self) -> None:
        return None


def shout(given: Any) -> QualitySubscription:
    """An interpreter of our own: the class alone, loudly."""
    return parse_subscription(f"ON {str(given).title()}")


def test_vir5_9_interpreter_and_dispatcher_are_the_organisations_own(tmp_path: Path) -> None:
    async def play() -> None:
        made = Cooperation(tmp_path)
        here = f"{__name__}:Collecting"
        made.own["INPS"] = {"interpreter": f"{__name__}:shout", "dispatchers": (here,)}
        made.own["INAIL"] = {"interpreter": "triple"}
        await made.start("INPS", "INAIL", "CoC")
        await made.subscribe("INPS", "ENTERPRISE", dispatcher=here)
        await made.ask("INAIL", lambda c: c.subscribe({"class": "Enterprise"}, user="u", name="s"))
        await made.publish(change("a"), change("b"))
        await made.until(lambda: len(Collecting.taken) == 2)
        assert keys(Collecting.taken) == ["a", "b"]
        await made.until(lambda: made.waiting("INAIL") == 2)
        assert keys(await made.received("INAIL")) == ["a", "b"]
        await made.until(lambda: made.waiting("INPS") == 0)
        assert await made.received("INPS") == []  # acknowledged when they were taken
        await made.stop("INPS", "INAIL", "CoC")

    asyncio.run(play())


def test_the_dispatcher_webhook_posts_until_it_is_taken(tmp_path: Path) -> None:
    async def play() -> None:
        answers, bodies = [503, 200], []

        async def sink(request: Request) -> Response:
            bodies.append(await request.json())
            return Response(status_code=answers.pop(0))

        serving = Serving(Starlette(routes=[Route("/", sink, methods=["POST"])]), "127.0.0.1:0")
        await serving.start()
        async with cooperation(tmp_path, targets=("127.0.0.?",)) as made:
            with pytest.raises(RefusedError, match="nothing is sent to"):
                await made.subscribe("INPS", WATCHED, dispatcher="webhook", target="http://169.254.169.254/")
            await made.subscribe("INPS", WATCHED, dispatcher="webhook", target=serving.address)
            await made.publish(change("a"))
            await made.until(lambda: not answers)
            await made.until(lambda: made.waiting("INPS") == 0)
        await serving.close()
        assert [body["id"] for body in bodies] == [change("a").as_event().id] * 2

    asyncio.run(play())


def test_the_dispatcher_broker_publishes_to_a_broker_of_tidings(tmp_path: Path) -> None:
    from tidings.runtime.service import Service
    from tidings.runtime.settings import BrokerSettings, SecuritySettings

    anybody = SecuritySettings(anonymous=True)

    async def play() -> None:
        async with (
            Service(BrokerSettings(name="b", listen="127.0.0.1:0", security=anybody)) as broker,
            tidings.connect(broker.server.address, name="user") as bus,
            bus.subscribe("name.accuracy < 0.5") as listener,
            cooperation(tmp_path, targets=("127.0.0.1",)) as made,
        ):
            await made.subscribe("INPS", WATCHED, dispatcher="broker", target=broker.server.address)
            await made.publish(change("a"))
            assert (await listener.get(timeout=PATIENCE)).source == "CoC"

    asyncio.run(play())
