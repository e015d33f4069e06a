"""Limits stand in one type, and every sequence that a message carries is bounded.

A limit in a module's constant cannot be shrunk by a simulation, so no run meets it. Those that are left are
listed here and may only become fewer.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import get_type_hints

import pytest
from tests.tidy._sources import PACKAGE, python_files, tree_of
from tests.unit.wire._golden import EXAMPLES, declared

from tidings.protocol.messages import Message

ROOMS = ("protocol", "runtime", "wire", "store", "gateway")
LIMIT = re.compile(
    r"(^|_)(MOST|MAX|LONGEST|LARGEST|DEEPEST|AHEAD|IN_FLIGHT|REMEMBERED|KEPT|KNOWN|BACKLOG|BUFFER|WINDOW|PAGE|BATCH|CHUNK"
    r"|QUEUE|BYTES|COUNT|LIMIT)(_|$)"
)

# Numbers that look like limits and are none that a run could be asked to shrink.
EXCEPTIONS = {
    "store/guard.py:CRC_BYTES": "the size of a checksum in a stored entry",
    "store/guard.py:MAX_OFFSET": "the largest number of the format",
    "gateway/mqtt/packets.py:LONGEST_TEXT": "the longest text of the format",
    "runtime/dialling.py:MOST_PORT": "the largest port of TCP",
    "runtime/settings.py:DRAIN_MOST": "seconds; checked when settings are read",
    "runtime/unit.py:NONCE_BYTES": "the size of a nonce of the hand-over",
    "runtime/unit.py:LARGEST": "of a hand-over between processes of one unit, which run one version",
    "gateway/paced.py:LARGEST_SLICE": "of bytes that are parsed at once; nothing is refused at it",
    "gateway/mqtt/stream.py:MOST_UNREAD": "of a paused socket; nothing is refused at it",
    "runtime/local_clients.py:FEW_BYTES": "of a charge that waits; nothing is refused at it",
    "gateway/mqtt/listener.py:MOST_RETRY_SECONDS": "a pause; it bounds no resource",
    "gateway/streams.py:BYTES_TOGETHER": "of a piece that is written; larger ones go out alone",
    "gateway/streams.py:MOST_TOGETHER": "of a batch; what waits beyond it goes out in the next one",
    "gateway/webhooks.py:MOST_HEADERS": "of binary mode; a larger event goes in structured mode",
    "gateway/structured.py:MOST_BYTES": "of a cache; beyond it events are encoded again",
    "gateway/structured.py:MOST_EVENTS": "of a cache; beyond it events are encoded again",
    "gateway/mqtt/reading.py:MOST_TOPICS": "of a cache; beyond it names are checked again",
}

# Constants of before, to be moved into `ResourceLimits`. An entry may be removed, never added.
PENDING: frozenset[str] = frozenset(
    (
        "gateway/bodies.py:MOST_BYTES",
        "gateway/bodies.py:MOST_EVENTS",
        "gateway/bridges/bridge.py:AHEAD",
        "gateway/bridges/bridge.py:LONGEST_PAUSE",
        "gateway/bridges/nats.py:MOST_OPEN",
        "gateway/dialects.py:DEEPEST",
        "gateway/dialects.py:MOST_FILTERS",
        "gateway/http.py:MOST_ENTRIES",
        "gateway/mqtt/connection.py:AHEAD",
        "gateway/mqtt/connection.py:BUFFER",
        "gateway/mqtt/connection.py:LARGEST",
        "gateway/mqtt/connection.py:MOST_WAITING",
        "gateway/mqtt/exchanges.py:LARGEST",
        "gateway/mqtt/exchanges.py:MOST_HANDLED",
        "gateway/mqtt/in_flight.py:MOST_AHEAD",
        "gateway/mqtt/packets.py:MOST_SUBSCRIPTIONS",
        "gateway/authentication.py:MOST_REMEMBERED",
        "gateway/authentication.py:MOST_WAITING",
        "gateway/authentication.py:REMEMBERED_SECONDS",
        "gateway/streams.py:MOST_SUBSCRIPTIONS",
        "gateway/subscriptions.py:MOST_OF_ONE",
        "protocol/delivery/credit.py:FEW_BYTES",
        "protocol/delivery/remote_unsubscribe.py:MOST",
        "protocol/delivery/publisher_migration.py:MOST_BARRED",
        "protocol/delivery/publisher_migration.py:MOST_SOURCES",
        "protocol/delivery/registry.py:MAX_RIGHTS",
        "protocol/delivery/registry.py:MOST_OPTIONS",
        "protocol/delivery/sessions.py:MOST_UNOPENED",
        "protocol/membership/topics.py:MOST_LEVELS",
        "protocol/messages.py:MOST_TAGS",
        "protocol/overlay/cycle_repair.py:KEPT_SECONDS",
        "protocol/overlay/cycle_repair.py:MOST_KEPT",
        "protocol/overlay/two_hop.py:KEPT_COUSINS",
        "protocol/overlay/healing.py:KEPT_REPLACED",
        "protocol/overlay/measures.py:KEPT_FILTERS",
        "protocol/overlay/swaps.py:KEPT_DONE",
        "protocol/publisher_positions.py:MOST_LOGS",
        "protocol/publisher_positions.py:MOST_SOURCES",
        "protocol/routing/covering.py:MOST_LINGERING",
        "protocol/routing/outlets.py:KNOWN_PAIRS",
        "protocol/routing/outlets.py:KNOWN_UNIONS",
        "protocol/resume_tokens.py:MOST",
        "runtime/activity.py:MOST_EVENTS",
        "runtime/activity.py:MOST_NAMES",
        "runtime/activity.py:MOST_SUBSCRIPTIONS",
        "runtime/datagrams.py:RECEIVE_BYTES",
        "runtime/client_ingress.py:MOST_TOPICS",
        "runtime/client_ingress.py:REMEMBERED_TOPIC",
        "runtime/local_clients.py:AHEAD",
        "runtime/http.py:LONGEST",
        "runtime/http.py:MOST",
        "runtime/recent.py:MOST_AT_ONCE",
        "runtime/recent.py:MOST_PENDING",
        "runtime/recent.py:MOST_ROWS",
        "runtime/handshake.py:LONGEST_NAME",
        "runtime/handshake.py:MOST_STEPS",
        "runtime/secured.py:MOST_STANDINGS",
        "runtime/audit_file.py:MOST_WAITING",
        "runtime/trace.py:MOST_NAMES",
        "runtime/trace.py:MOST_STEPS",
        "store/account.py:_PAGE_BITS",
        "store/committer.py:MAX_GROUP_BYTES",
        "store/committer.py:MAX_GROUP_RECORDS",
        "store/jetstream.py:LEAST_BYTES",
        "store/jetstream.py:PART_BYTES",
        "store/rocks.py:RESERVE_BYTES",
        "store/rocks.py:WRITE_BUFFER_BYTES",
        "store/rocks.py:_SLACK_BYTES",
    )
)

# Messages with a sequence that is not cut (`Message.cut_field`), and what bounds it.
PATH = "a path through the overlay; `envelope_bytes` has room for 256 brokers"
PAGE = "a page that its sender fills to `batch_bytes` (`batches.PageBuilder`)"
CLIENT = "sent by a client; the broker checks it before it allocates anything"
FEW = "a broker's neighbours, contacts or members: as many as a link, a table or a view has"
FILTERS = "filters of one key or one client, each bounded by the budget of filters"
LAB = "of a system that is studied in simulation; its tables are bounded where they are kept"
BOUNDED = {
    "ClientJoined": CLIENT, "Subscribe": CLIENT, "Ack": CLIENT, "AckCredit": CLIENT, "Nack": CLIENT,
    "CommitParts": CLIENT, "StageEvents": CLIENT, "MemberHoldings": CLIENT,
    "PublishAll": "at most `codec.PUBLISHES` events; the decoder refuses more",
    "InquiryRequest": CLIENT, "Lost": "one number for each policy and bound of a subscription",
    "LogRead": PAGE, "ReplayReply": PAGE, "LogCopyPage": PAGE, "LogState": PAGE, "AdoptLog": PAGE,
    "TailReply": PAGE,
    "Propose": PAGE, "Replicate": PAGE, "HandedEvents": PAGE,
    "RangeRequest": PATH, "ReplayRequest": PATH, "LockPath": PATH, "SwapVerdictRequest": PATH,
    "SwapVerdict": PATH, "CycleQuery": PATH, "CutLink": PATH,
    "RemoteUnsubscribe": PATH, "RemoteUnsubscribed": PATH, "DiscoveryRequest": PATH,
    "NeighbourList": FEW, "TwoHopNeighbours": FEW, "PrefixJoin": FEW, "PrefixJoinReply": FEW,
    "PrefixHello": FEW, "RowReply": FEW, "PrefixLeave": FEW, "ViewHello": FEW,
    "ViewBeat": FEW, "ToRouters": FEW, "DiffuseEvent": FEW,
    "Graft": FILTERS, "Enrol": FILTERS, "Replica": FILTERS,
    "ToService": LAB, "ToGroups": LAB, "SubjectSet": LAB, "CacheRequest": LAB, "CacheReply": LAB,
    "Climb": LAB, "Descend": LAB,
    "GossipEvents": LAB, "GossipOffer": LAB, "PeerShuffle": LAB, "PeerSearch": LAB, "PeerFound": LAB,
    "PeerSubscribe": LAB,
    "PeerPing": LAB, "PeerPong": LAB, "PeerLeave": LAB, "GroupStateRequest": LAB, "GroupState": LAB,
    "Flush": LAB, "StreamProgress": LAB,
    "SubscriberMarks": LAB, "PushOffer": LAB, "PushWant": LAB, "PatternPull": LAB, "SourcePull": LAB,
    "LazyAnnounce": LAB, "CounterBeat": LAB, "PeerJoin": LAB,
}  # fmt: skip


def constants(path: Path) -> list[str]:
    """`room/file:NAME` for each number at the top of a module whose name is that of a limit."""
    position = path.relative_to(PACKAGE).as_posix()
    return [
        f"{position}:{name}"
        for node in tree_of(path).body
        if isinstance(node, ast.Assign | ast.AnnAssign) and _is_number(node.value)
        for name in _names(node)
        if name.isupper() and LIMIT.search(name)
    ]


def _names(node: ast.Assign | ast.AnnAssign) -> list[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _is_number(value: ast.expr | None) -> bool:
    if isinstance(value, ast.BinOp):
        return _is_number(value.left) and _is_number(value.right)
    return isinstance(value, ast.Constant) and type(value.value) in (int, float)


def all_constants() -> set[str]:
    files = [path for path in python_files("src") if path.relative_to(PACKAGE).parts[0] in ROOMS]
    return {name for path in files for name in constants(path)}


def test_limits_are_fields_of_one_injected_type() -> None:
    found = all_constants()
    assert found - set(EXCEPTIONS) - PENDING == set(), "put it into protocol/limits.py"
    gone = (PENDING | set(EXCEPTIONS)) - found
    assert not gone, f"these are there no more; remove their entries: {sorted(gone)}"


def test_every_limit_says_what_it_costs() -> None:
    source = (PACKAGE / "protocol" / "limits.py").read_text()
    fields = re.findall(r"^    (\w+): int = [^#\n]+(#.+)?$", source, re.MULTILINE)
    assert len(fields) > 20
    assert [name for name, note in fields if not note] == []


def sequences(kind: type[Message]) -> list[str]:
    hints = get_type_hints(kind)
    return [
        name
        for name in kind.__struct_fields__
        if re.search(r"tuple\[.*\.\.\.\]|dict\[|list\[", str(hints[name]))
    ]


@pytest.mark.parametrize("kind", sorted({*map(type, EXAMPLES), *declared()}, key=lambda kind: kind.__name__))
def test_every_sequence_in_a_message_is_cut_or_bounded(kind: type[Message]) -> None:
    fields = sequences(kind)
    if kind.cut_field:
        assert kind.cut_field in kind.__struct_fields__
        assert kind.__name__ not in BOUNDED
    elif fields:
        assert kind.__name__ in BOUNDED, f"{fields}: say what bounds them, or name one as `cut_field`"


def test_the_list_of_bounded_messages_names_messages() -> None:
    names = {kind.__name__ for kind in (*map(type, EXAMPLES), *declared())}
    assert set(BOUNDED) <= names


def test_a_new_constant_is_found() -> None:
    assert _is_number(ast.parse("1 << 20").body[0].value)  # type: ignore[attr-defined]
    assert LIMIT.search("MOST_ROWS")
    assert not LIMIT.search("RETRY_SECONDS")
