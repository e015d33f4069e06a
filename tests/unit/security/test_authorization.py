"""The gate and the authenticator: every path asks, every refusal is counted and written down."""

from __future__ import annotations

from typing import Any

import pytest

from tidings.errors import EventError, RefusedError
from tidings.language import accepts, parse_filter
from tidings.model.event import Event, make_event
from tidings.model.filter import Filter
from tidings.security.audit import BURST, Audit, AuditEntry, line
from tidings.security.authenticator import ByUsers
from tidings.security.authorization import Authorizer
from tidings.security.certificates import BROKER_UNIT
from tidings.security.credentials import CertificateCredentials, PasswordCredentials, TokenCredentials
from tidings.security.interfaces import (
    BROKER,
    CLIENT,
    AuthenticationRequest,
    AuthenticationResult,
    Authenticator,
    Credentials,
    Guard,
    NoCredentials,
)
from tidings.security.principal import Principal, ProofMethod
from tidings.security.scram import make_key
from tidings.security.tokens import sign
from tidings.security.users import Users, parse_users

SECRET = b"0123456789abcdef0123456789abcdef"
FILE = f"""
[users.ann]
password = "{make_key("pencil", iterations=4096)}"
quota.connections = 2
quota.subscriptions = 2
quota.bytes_per_second = 1000
quota.burst_bytes = 1000
quota.stored_bytes = 400
filter = "change < 0"
[users.bob]
tenant = "acme"
[users.carl]
tenant = "evil"
[[allow]]
who = ["ann", "bob", "carl"]
action = ["publish", "subscribe"]
[[allow]]
who = "root"
action = "observe"
[[issuers]]
issuer = "i"
audience = "a"
key_file = "k"
"""


class Clock:
    now = 1_000.0

    def __call__(self) -> float:
        return self.now


class House:
    """A gate and an authenticator with what they wrote down."""

    def __init__(self, text: str = FILE, **options: Any) -> None:
        self.entries: list[AuditEntry] = []
        self.clock = Clock()
        audit = Audit(self.entries.append, self.clock)
        self.gate = Authorizer(users(text), clock=self.clock, audit=audit)
        self.door = ByUsers(
            lambda: self.gate.users, clock=self.clock, pepper=b"p" * 32, audit=audit, **options
        )

    def enter(self, with_: Credentials, **changes: Any) -> Principal:
        """The whole conversation, both halves."""
        given = {"role": CLIENT, "name": "ann", "mechanism": with_.mechanism, "is_loopback": True, **changes}
        conversation = self.door.begin(AuthenticationRequest(**given))
        answer = conversation.step(with_.first())
        while not isinstance(answer, AuthenticationResult):
            answer = conversation.step(with_.answer(answer))
        with_.finish(answer.server_final)
        assert isinstance(answer.principal, Principal)
        return answer.principal


def users(text: str) -> Users:
    return parse_users(text, read=lambda name: SECRET)


def quote(change: float, **options: Any) -> Event:
    return make_event({"change": change}, **{"source": "ann", "id": "1", **options})


ANN = Principal("ann", ProofMethod.SCRAM)
BOB, CARL = Principal("bob", ProofMethod.TOKEN, "acme"), Principal("carl", ProofMethod.TOKEN, "evil")


def test_they_fit_the_doors() -> None:
    house = House()
    guard: Guard[Principal] = house.gate
    authenticator: Authenticator = house.door
    credentials: list[Credentials] = [
        PasswordCredentials("a", "b"),
        TokenCredentials(lambda: ""),
        NoCredentials(),
    ]
    assert guard
    assert authenticator
    assert credentials


# -- who is this ---------------------------------------------------------------------------------


def test_a_password_lets_in_and_the_audit_says_so() -> None:
    house = House()
    assert house.enter(PasswordCredentials("ann", "pencil"), peer="1.2.3.4:5").name == "ann"
    (entry,) = house.entries
    assert (entry.action, entry.outcome, entry.principal, entry.peer) == ("connect", "ok", "ann", "1.2.3.4:5")


def test_a_token_lets_in() -> None:
    house = House()
    token = sign({"sub": "bob", "exp": 1_060.0, "iss": "i", "aud": "a"}, SECRET, "HS256")
    assert house.enter(TokenCredentials(lambda: token)).tenant == "acme"
    assert house.enter(TokenCredentials(lambda: token), tenant="acme").tenant == "acme"
    with pytest.raises(RefusedError, match="tenant 'evil'"):
        house.enter(TokenCredentials(lambda: token), tenant="evil")
    house.clock.now += 100
    with pytest.raises(RefusedError, match="has ended"):
        house.enter(TokenCredentials(lambda: token))


def certificate(name: str, *units: str) -> dict[str, Any]:
    subject = ((("commonName", name),), *((("organizationalUnitName", unit),) for unit in units))
    return {"subject": subject}


def test_a_certificate_lets_in_a_client_and_a_broker() -> None:
    house, shown = House(), CertificateCredentials()
    assert house.enter(shown, certificate=certificate("ann")).means is ProofMethod.CERTIFICATE
    broker = house.enter(shown, role=BROKER, name="b1", certificate=certificate("b1", BROKER_UNIT))
    assert broker.is_broker


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"role": BROKER, "name": "b1", "certificate": certificate("b1")}, "not that of broker"),
        ({"role": BROKER, "name": "b1", "certificate": certificate("b2", BROKER_UNIT)}, "not that of broker"),
        ({"role": BROKER, "name": "b1", "mechanism": "anonymous"}, "no certificate was shown"),
        ({"mechanism": "certificate"}, "no certificate was shown"),
        ({"certificate": {"subject": ()}}, "0 common names"),
        ({"certificate": certificate("anyone")}, "which rules use for others"),
        ({"certificate": certificate("group:traders")}, "which rules use for others"),
        ({"mechanism": "anonymous"}, "asks who you are"),
        ({"mechanism": "plain"}, "no mechanism is called 'plain'"),
        ({"mechanism": "token", "is_loopback": False}, "over TLS only"),
        ({"mechanism": "scram-sha-256", "is_loopback": False}, "over TLS only"),
        ({"mechanism": "token"}, "token is not valid"),
    ],
)
def test_who_is_not_let_in_hears_why_and_is_written_down(asked: dict[str, Any], said: str) -> None:
    house = House()
    with pytest.raises(RefusedError, match=said):
        house.enter(CertificateCredentials(), **asked)
    assert [entry.outcome for entry in house.entries] == ["refused"]


def test_anonymous_is_for_loopback_where_it_was_allowed() -> None:
    house = House(allow_anonymous=True)
    assert house.enter(NoCredentials(), name="x").is_anonymous
    with pytest.raises(RefusedError, match="asks who you are"):
        house.enter(NoCredentials(), name="x", is_loopback=False, is_tls=True)


@pytest.mark.parametrize("data", [b"\xff\xfe", b"x" * 20_000, b""])
def test_strange_bytes_are_refused(data: bytes) -> None:
    for mechanism in ("scram-sha-256", "token"):
        with pytest.raises(RefusedError):
            House().door.begin(AuthenticationRequest(CLIENT, "ann", mechanism, is_loopback=True)).step(data)


def test_no_secret_is_written_down() -> None:
    house = House()
    token = sign({"sub": "bob", "exp": 1.0, "iss": "i", "aud": "a"}, SECRET, "HS256")
    for credentials in (PasswordCredentials("ann", "hunter2"), TokenCredentials(lambda: token)):
        with pytest.raises(RefusedError):
            house.enter(credentials)
    text = b"".join(map(line, house.entries)).decode() + repr(PasswordCredentials("ann", "hunter2"))
    assert "refused" in text
    for secret in ("hunter2", token, SECRET.decode(), "SCRAM-SHA-256$"):
        assert secret not in text


# -- may they ------------------------------------------------------------------------------------


def test_names_of_clients_and_sources_are_the_principals_own() -> None:
    house = House()
    house.gate.connected(ANN, "ann/desk")
    for refused in (
        lambda: house.gate.connected(ANN, "bob"),
        lambda: house.gate.publish(ANN, quote(-1, source="bob")),
    ):
        with pytest.raises(RefusedError, match="may not use"):
            refused()
    assert house.gate.refused == 2


def test_the_mandatory_filter_bounds_publishing_and_hearing() -> None:
    gate = House().gate
    assert gate.publish(ANN, quote(-1)) == quote(-1)
    with pytest.raises(RefusedError, match=r"ann may not publish (to topic|without a topic)"):
        gate.publish(ANN, quote(1))
    subscribed = gate.subscribe(ANN, "ann", "all", parse_filter("TRUE"))
    assert [accepts(subscribed, quote(change)) for change in (-1, 1)] == [True, False]
    assert gate.deliver(ANN, quote(-1)) is not None
    assert gate.deliver(ANN, quote(1)) is None  # whatever path it came by
    assert gate.withheld == 1


def test_a_right_that_is_taken_away_ends_at_once() -> None:
    house = House()
    house.gate.subscribe(ANN, "ann", "all", parse_filter("TRUE"))
    house.gate.replace(users(FILE.replace("change < 0", "change < -5")))
    assert house.gate.deliver(ANN, quote(-1)) is None
    assert house.gate.deliver(ANN, quote(-6)) is not None


def test_observing_needs_its_own_rule() -> None:
    gate = House().gate
    gate.observe(Principal("root", ProofMethod.CERTIFICATE), "figures")
    with pytest.raises(RefusedError, match="may not observe"):
        gate.observe(ANN, "figures")


def test_tenants_do_not_meet() -> None:
    gate = House().gate
    mine = gate.publish(BOB, quote(-1, source="bob", key="last"))
    theirs = gate.publish(CARL, quote(-1, source="carl", key="last"))
    assert mine.key != theirs.key  # so that neither supersedes the other's
    everything = gate.subscribe(BOB, "ann", "all", parse_filter("TRUE"))
    assert accepts(everything, mine)
    assert not accepts(everything, theirs)
    shown = gate.deliver(BOB, mine)
    assert shown is not None
    assert shown.key == "last"
    assert gate.deliver(BOB, theirs) is None
    with pytest.raises(EventError, match="of tenant 'acme'"):
        gate.publish(CARL, make_event({"tenant": "acme"}, source="carl", id="2"))


def test_quotas_are_kept_and_given_back() -> None:
    house = House()
    gate = house.gate
    for _ in range(2):
        gate.connected(ANN, "ann")
        gate.subscribe(ANN, "ann", "s", parse_filter("change < -1"))
    with pytest.raises(RefusedError, match="connections"):
        gate.connected(ANN, "ann")
    with pytest.raises(RefusedError, match="subscriptions"):
        gate.subscribe(ANN, "ann", "t", parse_filter("change < -1"))
    for _ in range(2):
        gate.unsubscribed(ANN, "ann", "s")
        gate.disconnected(ANN)
    gate.connected(ANN, "ann")
    gate.subscribe(ANN, "ann", "t", parse_filter("change < -1"))
    assert gate.charge(ANN, 1_000) == 0
    assert gate.charge(ANN, 500) == 0.5
    with pytest.raises(RefusedError, match="stored bytes"):
        gate.publish(ANN, make_event({"change": -1}, source="ann", id="2", payload=b"x" * 500, lifetime=5))


def test_a_durable_subscription_counts_once_until_it_is_ended() -> None:
    gate = House().gate
    wanted = parse_filter("change < -1")
    for name in ("s", "t"):
        for _ in range(3):  # it comes and goes
            gate.subscribe(ANN, "ann", name, wanted, durable=True)
            gate.unsubscribed(ANN, "ann", name, durable=True, ended=False)
    with pytest.raises(RefusedError, match="subscriptions"):
        gate.subscribe(ANN, "ann", "u", wanted, durable=True)
    with pytest.raises(RefusedError, match="subscriptions"):
        gate.subscribe(ANN, "ann/other", "s", wanted, durable=True)
    gate.unsubscribed(ANN, "ann", "s", durable=True, ended=True)
    gate.subscribe(ANN, "ann", "u", wanted, durable=True)


def test_what_the_disk_holds_counts_for_its_owner() -> None:
    gate = House().gate
    for name in ("s", "t", "u"):
        gate.found("ann/desk", name, parse_filter("change < -1"))
    with pytest.raises(RefusedError, match="would use 4 subscriptions; its quota is 2"):
        gate.subscribe(ANN, "ann", "v", parse_filter("change < -1"), durable=True)
    gate.subscribe(ANN, "ann/desk", "s", parse_filter("change < -2"), durable=True)  # one that is there


def test_a_proof_that_began_before_a_reload_proves_nothing() -> None:
    house = House()
    shown = PasswordCredentials("ann", "pencil")
    conversation = house.door.begin(AuthenticationRequest(CLIENT, "ann", shown.mechanism, is_loopback=True))
    challenge = conversation.step(shown.first())
    assert isinstance(challenge, bytes)
    house.gate.replace(users(FILE))
    with pytest.raises(RefusedError, match="read again meanwhile"):
        conversation.step(shown.answer(challenge))


def test_groups_of_tenants_and_queries_of_principals_do_not_meet() -> None:
    gate = House().gate
    dave = Principal("dave", ProofMethod.TOKEN, "acme")
    assert len({gate.group_scope(who, "g") for who in (ANN, BOB, CARL, dave)}) == 4
    assert len({gate.scopes(who)[1] for who in (ANN, BOB, CARL, dave)}) == 4


def test_who_is_refused_cannot_fill_the_disk_by_changing_its_name() -> None:
    house = House()
    for number in range(500):
        with pytest.raises(RefusedError):
            house.enter(NoCredentials(), name=f"somebody {number}")
    assert len(house.entries) == BURST


def test_refusals_in_masses_are_counted_not_written() -> None:
    house = House()
    for _ in range(1_000):
        assert house.gate.deliver(ANN, quote(1)) is None
    assert len(house.entries) == BURST
    house.clock.now += 5
    house.gate.deliver(ANN, quote(1))
    assert house.entries[-1].suppressed == 1_000 - BURST


def test_a_hold_keeps_only_what_its_holder_may_read() -> None:
    house = House()
    filters = house.gate.hold(
        Principal("bob", ProofMethod.SCRAM, tenant="acme"), "h", parse_filter("EXISTS x")
    )
    assert accepts(filters, make_event({"x": 1, "tenant": "acme"}, source="bob", id="1"))
    assert not accepts(filters, make_event({"x": 1, "tenant": "evil"}, source="carl", id="1"))


@pytest.mark.parametrize(
    ("text", "value"), [("n IN ({})", "{}"), ("n NOT IN ({})", "{}"), ("LOWER(s) IN ({})", "'{}'")]
)
def test_each_value_of_a_list_counts_as_a_constraint(text: str, value: str) -> None:
    """A filter of one `IN` with 2,000 values was one constraint of the quota and took 1.7 MB."""
    gate = House('[quota]\nconstraints = 100\n[[allow]]\nwho = "ann"\naction = "subscribe"\n').gate

    def listing(count: int) -> Filter:
        return parse_filter(text.format(", ".join(value.format(n) for n in range(count))))

    with pytest.raises(RefusedError, match="constraints"):
        gate.subscribe(ANN, "ann", "many", listing(101))
    gate.subscribe(ANN, "ann", "some", listing(60))
    with pytest.raises(RefusedError, match="constraints"):
        gate.subscribe(ANN, "ann", "more", listing(60))
    gate.unsubscribed(ANN, "ann", "some")
    gate.subscribe(ANN, "ann", "more", listing(60))


def test_an_unknown_name_has_one_salt_at_all_brokers_and_over_restarts() -> None:
    def salts(text: str, name: str, pepper: bytes) -> str:
        rules = users(text)
        listener = ByUsers(
            lambda: rules, clock=Clock(), pepper=pepper, audit=Audit(lambda entry: None, Clock())
        )
        request = AuthenticationRequest(role=CLIENT, name=name, mechanism="scram-sha-256", is_loopback=True)
        data = listener.begin(request).step(PasswordCredentials(name, "x").first())
        assert isinstance(data, bytes)
        return data.decode().split(",")[1]

    more = FILE + f'\n[users.zoe]\npassword = "{make_key("z", iterations=4096)}"\n'
    for name in ("ghost", "ann"):
        found = {salts(FILE, name, b"1" * 32), salts(FILE, name, b"2" * 32), salts(more, name, b"3" * 32)}
        assert len(found) == 1
