"""A whole broker as an operator runs it: real sockets, TLS, proofs, rules on every path, reload, health."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import msgspec
import pytest

import tidings
from tidings.errors import RefusedError, SettingsError, UnreachableError
from tidings.protocol.inputs import PersistFailed
from tidings.runtime import tls
from tidings.runtime.authority import issue, make_authority
from tidings.runtime.service import Service
from tidings.runtime.settings import BrokerSettings, read_settings
from tidings.security.credentials import CertificateCredentials, PasswordCredentials, TokenCredentials
from tidings.security.scram import make_key
from tidings.security.tokens import sign

SECRET = b"0123456789abcdef0123456789abcdef"
PASSWORD = "correct horse battery"
USERS = f"""
[users.ann]
password = "{make_key(PASSWORD, iterations=4096)}"
filter = "level < 5"
[users.market]
password = "{make_key("m", iterations=4096)}"
[users.spy]
password = "{make_key("s", iterations=4096)}"
[[allow]]
who = "ann"
action = "subscribe"
filter = "topic = 'quotes/#'"
[[allow]]
who = "market"
action = "publish"
[[allow]]
who = ["root", "token-user"]
action = ["observe", "subscribe"]
[[issuers]]
issuer = "i"
audience = "a"
key_file = "secret.txt"
"""


@pytest.fixture(scope="module")
def certs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certs")
    make_authority(folder)
    for name in ("b1", "b2", "b3"):
        issue(folder, name, hosts=("127.0.0.1",), broker=True)
    for name in ("root", "b9"):
        issue(folder, name)
    return folder


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "users.toml").write_text(USERS)
    (tmp_path / "secret.txt").write_bytes(SECRET)
    return tmp_path


def settings(home: Path, certs: Path | None = None, **more: Any) -> BrokerSettings:
    fields = {"name": "b1", "listen": "127.0.0.1:0", "security.users": str(home / "users.toml"), **more}
    fields |= {"security.audit": str(home / "audit.jsonl"), "store": str(home / fields["name"])}
    if certs is not None:
        own = certs / fields["name"]
        fields |= {"tls.certificate": f"{own}.pem", "tls.key": f"{own}.key"}
        fields |= {"tls.authority": str(certs / "authority.pem")}
    return read_settings(fields=fields)


def running(settings: BrokerSettings) -> Service:
    return Service(settings)


def connect(service: Service, name: str, password: str | None = None, **options: Any) -> tidings.Bus:
    given: dict[str, Any] = {"name": name, "timeout": 10, **options}
    if password is not None:
        given["credentials"] = PasswordCredentials(name, password)
    return tidings.connect(service.server.address, **given)


def play(coroutine: Any) -> None:
    async def run() -> None:
        async with asyncio.timeout(120):
            await coroutine

    asyncio.run(run())


async def heard(listener: Any, count: int) -> list[Any]:
    found = [(await listener.get(timeout=120))["n"] for _ in range(count)]
    with pytest.raises(TimeoutError):
        await listener.get(timeout=0.1)
    return found


# -- rules on every path ---------------------------------------------------------------------------


def test_live_replay_and_resume_are_all_bounded_by_the_rules(home: Path) -> None:
    async def story() -> None:
        async with running(settings(home)) as service, connect(service, "market", "m") as market:

            async def quote(n: int, level: int, topic: str, lifetime: float = 60) -> None:
                await market.publish({"n": n, "level": level}, topic=topic, lifetime=lifetime)

            await quote(1, 1, "quotes/ibm")
            await quote(2, 9, "quotes/ibm")  # beyond ann's mandatory filter
            await quote(3, 1, "secrets")  # of no rule
            async with connect(service, "ann", PASSWORD) as ann:
                async with ann.subscribe("n > 0", name="all", durable=True) as news:
                    assert await heard(news, 1) == [1]  # replay
                    for n, level, topic in ((4, 1, "quotes/ibm"), (5, 9, "quotes/ibm"), (6, 1, "secrets")):
                        await quote(n, level, topic, 0)
                    assert await heard(news, 1) == [4]  # live
                await quote(7, 1, "quotes/x", 0)
                await quote(8, 9, "quotes/x", 0)
                async with ann.subscribe("n > 0", name="all", durable=True) as news:
                    assert await heard(news, 1) == [7]  # what it was owed
                with pytest.raises(RefusedError, match="nothing of"):
                    await ann.subscribe("topic = 'secrets'")
                with pytest.raises(RefusedError, match="may not publish"):
                    await ann.publish({"n": 1})
                with pytest.raises(RefusedError, match="may not observe"):
                    await ann.inquire("figures")
                with pytest.raises(RefusedError, match="may not use the source"):
                    await ann.publish({"n": 1}, source="market")

    play(story())


def test_a_reload_counts_at_once_for_those_who_are_connected(home: Path) -> None:
    async def story() -> None:
        async with running(settings(home)) as service:
            market, ann = connect(service, "market", "m"), connect(service, "ann", PASSWORD)
            async with market, ann, ann.subscribe(name="all") as news:
                await market.publish({"n": 1, "level": 1}, topic="quotes/a")
                assert await heard(news, 1) == [1]
                states: list[str] = []
                ann.watch(states.append)
                (home / "users.toml").write_text(USERS.replace("level < 5", "level < 2"))
                assert service.reload()
                while "up" not in states:  # sent away, and back with the new rules
                    await asyncio.sleep(0)
                await market.publish({"n": 2, "level": 3}, topic="quotes/a")
                await market.publish({"n": 3, "level": 1}, topic="quotes/a")
                assert await heard(news, 1) == [3]
                (home / "users.toml").write_text("[usres]")
                assert not service.reload()
                (home / "users.toml").unlink()
                assert not service.reload()
                await market.publish({"n": 4, "level": 1}, topic="quotes/a")
                assert await heard(news, 1) == [4]  # the old rules stay
        entries = [json.loads(line) for line in (home / "audit.jsonl").read_text().splitlines()]
        reloads = [entry["outcome"] for entry in entries if entry["action"] == "reload"]
        assert reloads == ["ok", "refused", "refused"]

    play(story())


# -- who is let in ---------------------------------------------------------------------------------


def test_passwords_tokens_and_certificates_over_tls(home: Path, certs: Path) -> None:
    async def story() -> None:
        trusting = tls.dialling(authority=str(certs / "authority.pem"))
        showing = tls.dialling(
            authority=str(certs / "authority.pem"),
            certificate=str(certs / "root.pem"),
            key=str(certs / "root.key"),
        )
        async with running(settings(home, certs)) as service:
            now = service._clock.now()
            token = sign({"sub": "token-user", "exp": now + 60, "iss": "i", "aud": "a"}, SECRET, "HS256")
            async with connect(service, "ann", PASSWORD, tls=trusting) as ann:
                assert ann.state == "up"
            shown = TokenCredentials(lambda: token)
            async with connect(service, "token-user", credentials=shown, tls=trusting) as bus:
                assert (await bus.inquire("figures"))["broker"] == "b1"
            async with connect(service, "root", credentials=CertificateCredentials(), tls=showing) as bus:
                assert (await bus.inquire("figures"))["connections"] == 1
            for refused in (
                connect(service, "ann", "wrong", tls=trusting),
                connect(service, "nobody", "x", tls=trusting),
                connect(service, "ann", tls=trusting),
                connect(service, "root", credentials=CertificateCredentials(), tls=trusting),
                connect(service, "bob", credentials=shown, tls=trusting),
            ):
                with pytest.raises(RefusedError):
                    await refused
            plain = service.server.address.replace("+tls", "")
            with pytest.raises(UnreachableError):
                await tidings.connect(
                    plain, name="ann", credentials=PasswordCredentials("ann", PASSWORD), timeout=1
                )

    play(story())


def test_brokers_join_by_their_certificate_alone(home: Path, certs: Path) -> None:
    async def story() -> None:
        async with running(settings(home, certs)) as one:
            plain = one.server.address.partition("://")[2]  # a broker with TLS joins by TLS
            joined = settings(home, certs, name="b2", join=[plain], advertise="b2.example:7117")
            async with running(joined) as two:
                while not (one.server.links and two.server.links):
                    await asyncio.sleep(0)
                assert (one.server.links, two.server.links) == (["b2"], ["b1"])
                assert one.server.links_at() == {"b2": "tidings+tls://b2.example:7117"}
                trusting = tls.dialling(authority=str(certs / "authority.pem"))
                market = connect(two, "market", "m", tls=trusting)
                ann = connect(one, "ann", PASSWORD, tls=trusting)
                async with market, ann, ann.subscribe(name="all") as news:
                    for n, level in ((1, 9), (2, 1)):
                        await market.publish({"n": n, "level": level}, topic="quotes/a", lifetime=60)
                    assert await heard(news, 1) == [2]  # from the other broker, within the rules
            strange = settings(home, certs, name="b9", join=[one.server.address])
            async with running(strange) as other:
                while not other.server.figures()["problems"]:
                    await asyncio.sleep(0)
                assert "not that of broker 'b9'" in str(other.server.figures()["problems"])
                assert one.server.links == []

    play(story())


def test_no_secret_is_in_any_log_audit_or_answer(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    async def story() -> None:
        async with running(settings(home, **{"log.level": "debug", "http": "127.0.0.1:0"})) as service:
            now = service._clock.now()
            token = sign({"sub": "token-user", "exp": now + 60, "iss": "i", "aud": "a"}, SECRET, "HS256")
            async with connect(service, "token-user", credentials=TokenCredentials(lambda: token)) as bus:
                figures = await bus.inquire("figures")
            async with connect(service, "ann", PASSWORD):
                pass
            for wrong in ("hunter2hunter2", ""):
                with pytest.raises(RefusedError):
                    await connect(service, "ann", wrong or "x")
            assert service.http is not None
            page = await asyncio.to_thread(get, service.http.address + "/metrics")
            stated = capfd.readouterr()
            text = (
                stated.out + stated.err + (home / "audit.jsonl").read_text() + json.dumps(figures) + page[1]
            )
            assert "token-user" in text
            for secret in (
                PASSWORD,
                "hunter2",
                token,
                token.split(".")[2],
                SECRET.decode(),
                "SCRAM-SHA-256$",
            ):
                assert secret not in text

    play(story())


# -- health and tracing ----------------------------------------------------------------------------


def get(address: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(address, timeout=120) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_health_readiness_and_metrics(home: Path) -> None:
    async def story() -> None:
        joining = msgspec.structs.replace(
            settings(home, http="127.0.0.1:0"),
            join=("127.0.0.1:1",),  # no broker listens there
        )
        async with running(joining) as service:
            assert service.http is not None
            address = service.http.address

            async def ask(path: str) -> tuple[int, str]:
                return await asyncio.to_thread(get, address + path)

            assert (await ask("/healthz"))[0] == 200
            while not service.server.figures()["problems"]:
                await asyncio.sleep(0)
            status, text = await ask("/readyz")
            assert status == 503
            assert "cannot be reached" in text
            async with connect(service, "market", "m") as market:
                await market.publish({"n": 1})
                assert 'tidings_events_published_total{broker="b1"} 1.0' in (await ask("/metrics"))[1]
                ann = connect(service, "ann", PASSWORD)
                async with ann, ann.subscribe(name="d", durable=True) as news:
                    await market.publish({"n": 2, "level": 1}, topic="quotes/a", mode="kept")
                    assert await heard(news, 1) == [2]
                page = (await ask("/metrics"))[1]
                assert 'tidings_publish_duration_seconds_count{broker="b1"} 2.0' in page
                assert 'tidings_delivery_duration_seconds_count{broker="b1"} 1.0' in page
                assert (
                    'tidings_delivery_duration_seconds_count{broker="b1"} 1.0' in (await ask("/metrics"))[1]
                ), "once"
            with pytest.raises(RefusedError):
                await connect(service, "ann", "wrong")
            assert (await ask("/nothing"))[0] == 404
            service.server.node._disk.failed = PersistFailed(1, "store", "the disk is gone")
            status, text = await ask("/healthz")
            assert status == 503
            assert "the disk is gone" in text

    play(story())


def test_a_trace_over_the_wire(home: Path) -> None:
    async def story() -> None:
        async with running(settings(home)) as service:
            now = service._clock.now()
            token = sign({"sub": "token-user", "exp": now + 60, "iss": "i", "aud": "a"}, SECRET, "HS256")
            watching = connect(service, "token-user", credentials=TokenCredentials(lambda: token))
            async with (
                watching,
                connect(service, "market", "m") as market,
                connect(service, "ann", PASSWORD) as ann,
                ann.subscribe(name="all") as news,
            ):
                await market.publish({"n": 1, "level": 1}, topic="quotes/a", id="e1")
                await heard(news, 1)
                answer = await watching.inquire("trace", id="e1", subscription="ann/all")
                assert [step["what"] for step in answer["steps"]] == ["published", "delivered"]
                assert "handed over" in answer["subscription"]["why"]
                await market.publish({"n": 2, "level": 9}, topic="quotes/a", id="e2")
                answer = await watching.inquire("trace", id="e2", subscription="ann/all")
                assert "does not accept" in answer["subscription"]["why"]
        untraced = settings(home, **{"trace.events": 0, "security.users": str(home / "users.toml")})
        async with running(untraced) as service:
            watching = connect(service, "token-user", credentials=TokenCredentials(lambda: token))
            async with watching:
                with pytest.raises(SettingsError, match="keeps no trace"):
                    await watching.inquire("trace", id="e1")

    play(story())
