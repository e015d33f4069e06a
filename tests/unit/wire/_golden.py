"""One example of every message, as bytes on disk: what an older release wrote must still be read.

`python -m tests.unit.wire._golden` writes the files of messages that have none yet; a file that
is there is never rewritten by it, since that is what it is for. A message that changes on purpose
gets a new folder for the new wire version.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

from tidings.availability.records import Put, Record
from tidings.language import parse_filter
from tidings.model.constraint import Constraint
from tidings.model.event import Event
from tidings.model.expression import Expression
from tidings.model.subscription import DeliveryOptions, Policy, Position
from tidings.protocol import messages as m
from tidings.protocol.client_failover import KeepaliveReply, KeepaliveRequest
from tidings.protocol.delivery import remote_unsubscribe
from tidings.protocol.delivery.grouped import TakenOver
from tidings.protocol.delivery.subscription_lookup import SubscriptionQuery, SubscriptionQueryReply
from tidings.protocol.membership import messages as g
from tidings.protocol.membership import views as v
from tidings.protocol.overlay import bypass, cycle_repair, healing, two_hop
from tidings.protocol.overlay import swap_messages as s
from tidings.protocol.overlay.choosing import Hop, LinkOffer
from tidings.protocol.proposals import PlacedEvent, Proposal
from tidings.protocol.recovery import group_messages as gl
from tidings.protocol.recovery import messages as w
from tidings.protocol.routing.diffusion import Interest, InterestAck
from tidings.protocol.routing.duplicates import NUMBER, Forward, ForwardAll
from tidings.protocol.routing.topic_gossip import GossipEvents, GossipOffer, GossipRequest
from tidings.runtime import messages as runtime_messages
from tidings.simulation.workloads import Step
from tidings.systems import Site, systems
from tidings.wire.codec import Codec, PublishAll
from tidings_lab.overlay import prefix_messages as pw
from tidings_lab.recovery import replicated as r
from tidings_lab.recovery import streams as st
from tidings_lab.recovery.epidemic import messages as e
from tidings_lab.routing import rendezvous_messages as rw
from tidings_lab.routing import subjects as sj
from tidings_lab.routing.central import Refer, ToService
from tidings_lab.routing.direct import Hold, ToAccess, ToTarget
from tidings_lab.routing.groups import GroupInterest, ToGroups
from tidings_lab.routing.multicast import Attach, Multicast, Publicise
from tidings_quality.routing.diffusion_trees import DiffuseEvent
from tidings_quality.routing.trees import Branch

FOLDER = Path(__file__).parents[2] / "golden" / "wire" / f"v{m.VERSION}"
TAGS = FOLDER / "tags.json"

FILTER = parse_filter("price < 10 AND (symbol LIKE 'IB%' OR NOT EXISTS symbol) AND price * 2 > volume")
EVENT = Event(
    "press", "i-7", {"price": 7.5, "symbol": "IBM", "tags": {"a": 1, "b": True}}, topic="quotes/ibm",
    type=("Quote", "Event"), time=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), payload=b"\x00\xff",
    lifetime=60.0, key="ibm", expires=90.0,
)  # fmt: skip
ENVELOPE = m.Envelope(EVENT, "b0", 9, 7, 59.5, 89.5, {NUMBER: ["b0.1f", 12]})  # an array comes back as a list
POSITION = Position("b0", 9)
TOLD = ("p1", ("a/b", "c"), 3, 0.5)
NEWS = (("suspect", "p2", 4),)
HOP = Hop("b1", 0.25, 0.5, 1.5, b"\x00\x07", 3.5)
OFFER = LinkOffer(0.75, b"\x01", 2, (HOP,), "127.0.0.1:2")

VIEW = v.AgreedView(3, ("d1", "d2"), ("1f.2", "2e.1"), {"d1": "1f", "d2": "2e", "d3": "3d"})
PROPOSAL = Proposal(EVENT, "i", 7, True, 0.25)

EXAMPLES: tuple[m.Message, ...] = (
    m.Hello("alice", "1f"),
    m.ClientJoined(2, {"press": {"b0#1f": 9}}),
    m.Publish(1, EVENT, 7, m.AckMode.KEPT),
    m.Subscribe(2, 1, "n", FILTER, DeliveryOptions(durable=True, policy=Policy.DROP_OLDEST), True, {"b0": 4},
        64),
    m.Unsubscribe(3, 1, False, True),
    m.Credit(1, -5),
    m.Ack(1, (1, 2, 3)),
    m.AckAll(1, 4, 300),
    m.AckCredit(1, (1, 2, 3), 4),
    m.DeliverAll(1, 300, (EVENT,) * 20),
    PublishAll(5, 7, m.AckMode.KEPT, (EVENT,) * 3),
    m.PublishedAll(5, 20),
    m.Nack(1, (4,), False),
    m.Advertise(4, "a", FILTER),
    m.Unadvertise(5, "a"),
    m.Welcome("b0", "b0"),
    m.Published(1, POSITION),
    m.Subscribed(2, 1, "alice", "n", True),
    m.Unsubscribed(3, 1),
    m.Deliver(1, 3, EVENT, POSITION, 2, True),
    m.Silence(1, POSITION),
    m.Lost(1, {"drop oldest": 3}),
    m.Refused(4, "filter", "no"),
    m.Closed(1, "slow", "too slow"),
    m.Advertised(4),
    m.Home(1, "b0"),
    m.MemberHoldings(1, {"b0": (4, 9)}, {"b0": (3, 5, 70000)}),
    m.Fence(1, 2),
    m.Fenced(1, 2),
    m.ReadLog(1, FILTER, 2, 3, "b0"),
    m.LogRead(1, "b0", (m.LogEntry(2, EVENT, 3.5),), 4, 1, 9),
    m.StageEvents(1, "q", 2, 3, (EVENT,), "b0"),
    m.Staged(1),
    m.CommitStaged(1, "q", 2, 3, "b0"),
    m.AskCommitted(1, "q"),
    m.Committed(1, "q", 2, True),
    m.CommitParts(1, "q", 2, (3, 70000), "b0"),
    m.HoldLog(1, "spark", FILTER, 7, 60.0, True, "b0"),
    m.EndHold(1, "spark"),
    m.LogHeld(1, "b0", 2, 9, 7, True),
    runtime_messages.OpenSession("broker", "b1", "tidings", "scram", b"\x00", "acme", "tidings://h:1", 2),
    runtime_messages.AuthChallenge(b"\x01"),
    runtime_messages.AuthResponse(b"\x02"),
    runtime_messages.SessionOpened("b0", "tidings", b"\x03", "tidings://h:2"),
    runtime_messages.SessionDenied("refused", "no"),
    runtime_messages.Keepalive(),
    runtime_messages.KeepaliveAck(),
    runtime_messages.SessionClose("stops"),
    runtime_messages.InquiryRequest(1, "figures", {"a": 1}),
    runtime_messages.InquiryReply(1, {"b": 2}),
    runtime_messages.InquiryRefused(1, "refused", "no"),
    Forward(ENVELOPE),
    ForwardAll((ENVELOPE, ENVELOPE)),
    Interest("subscriptions", (FILTER,), ("00ff",), True, "b0.1f/2e", 3, False),
    InterestAck("subscriptions", "b0.1f/2e", 3),
    Hold(FILTER, "b1", -1, True),
    ToTarget(ENVELOPE),
    ToAccess(ENVELOPE),
    DiffuseEvent(ENVELOPE, (Branch("b1", (Branch("b2"),)), Branch("b3"))),
    w.Knowledge((w.LogKnowledge("b0", 3, 5, 9),)),
    w.LogsUnreachable(("b0", "b1")),
    cycle_repair.CycleQuery("b0", "b2", 3, ("b2", "b1"), 4.5, cycle_repair.DatedLink(3.5, "b1", "b2")),
    cycle_repair.CutLink(cycle_repair.DatedLink(3.5, "b1", "b2"), ("b1", "b2")),
    cycle_repair.LinkUndone(),
    healing.NeighbourList(("b0", "b1"), ("127.0.0.1:1", "127.0.0.1:2")),
    healing.HealRequest("b3"),
    healing.HealReply("b3", True),
    two_hop.TwoHopNeighbours("b3", ("b0", "b3"), ("127.0.0.1:1", "127.0.0.1:2")),
    two_hop.StandInRequest("b3", "b2"),
    bypass.BypassRequest("b3"),
    bypass.BypassReply("b3", True),
    bypass.CaughtUpNotice("b3", "b2"),
    s.DiscoveryRequest("b0/1", b"\x00\xff", b"\x01", (HOP,), 4, 2.5, "127.0.0.1:1"),
    s.DiscoveryReply("b0/1", OFFER),
    s.DiscoveryPartial("b0/1"),
    s.SubtreeSize(7),
    s.LockPath("b0/2", ("b0", "b1", "b2"), 1),
    s.LockReply("b0/2", False, "busy"),
    s.InterestComplete("b0/2"),
    s.CloseOldLink("b0/2"),
    s.LinkClosing("b0/2"),
    s.LinkClosed("b0/2"),
    s.UnlockPath("b0/2", True),
    s.SwapVerdictRequest("b0/2", "b1", ("b2", "b1")),
    s.SwapVerdict("b0/2", True, ("b2", "b1")),
    s.LinkUnknown(),
    remote_unsubscribe.RemoteUnsubscribe("alice", "n", "b0", 2.5, ("b2", "b1")),
    remote_unsubscribe.RemoteUnsubscribed("alice", "n", "b0", ("b2", "b1")),
    w.AckProgress((w.LogAck("b0", 9, 7),)),
    w.RangeRequest("b0", 3, 9, ("b2", "b1")),
    w.RangeReply("b0", 3, 9, (ENVELOPE,), ("b2", "b1"), True),
    w.ReplayRequest("b0", 4, FILTER, 3, 5, 2.5, 100, ("b2", "b1")),
    w.ReplayRequests((w.ReplayRequest("b0", 4, FILTER, 3, 5, 2.5, 100, ("b2", "b1")),)),
    w.ReplayReply("b0", 4, (ENVELOPE,), 9, ("b2", "b1"), True, True),
    w.ReplayReplies((w.ReplayReply("b0", 4, (ENVELOPE,), 9, ("b2", "b1"), True, True),)),
    e.PushOffer("b0", 1 << 59, {"b0.1f": ((3, 250), (4, 0))}),
    e.PushWant({"b0.1f": (3, 4)}),
    e.Recovered(ENVELOPE, 0.25),
    e.PatternPull("b2", 1 << 59, {"b0.1f": (3, 4)}, e.Bloom(b"\x00\xff", 7, 3, (("b0.1f", 3),))),
    e.SourcePull("b2", "b0.1f", {1 << 59: (3, 4)}, ("b1", "b0"), e.Bloom(b"\x00\xff", 7, 3, ((5, 3),))),
    e.LazyAnnounce({"b0.1f": ((3, 250),)}),
    e.CounterBeat("b0.1f", {1 << 59: 4}, ("b0", "b1")),
    r.Replica("b0.1f", 3, (r.ReplicatedHeader("alice", "n", FILTER),)),
    r.ReplicaAck("b0.1f", 3),
    r.HandedEvents("alice", "n", (ENVELOPE,), 4),
    r.HandedAck(4),
    g.PeerJoin(TOLD),
    g.PeerShuffle("a/b", (TOLD,), (TOLD,), 3, (0.25, 1.5), True, NEWS),
    g.PeerSearch(TOLD, 4, ("a", "/"), 3),
    g.PeerFound((TOLD, TOLD)),
    g.PeerSubscribe(("a",), 2),
    g.PeerPing(5, NEWS),
    g.PeerPong(5, TOLD, NEWS),
    g.PeerPingFor(6, "p2"),
    g.PeerLeave(7, ("a/b",)),
    GossipEvents(ENVELOPE, 2, ("p1", "p2"), True),
    GossipOffer("press", "i-7", 2, ("p1",)),
    GossipRequest("press", "i-7"),
    v.ViewHello("news", "1f.2", "1f", VIEW, "127.0.0.1:1", {"d2": "127.0.0.1:2"}, True),
    v.ViewBeat(3, ("d2", "d3")),
    v.ViewAsk(VIEW, (1, "d2")),
    v.ViewAnswer(4, (1, "d2"), "1f", (0, "d1"), VIEW),
    v.ViewPropose(VIEW, (1, "d2"), VIEW),
    v.ViewAck(4, (1, "d2"), "1f"),
    v.ViewRefused(4, (2, "d3")),
    v.ViewInstall(VIEW),
    st.Highest({"press/i": 7}, True),
    st.ResendRequest((ENVELOPE,)),
    st.GroupStateRequest(3, {"press/i": 6}),
    st.GroupState(3, {"press/i": 7}),
    st.Flush(4, {"press/i": 7}, False),
    st.StreamProgress({"n": {"press/i": 7}}),
    st.SubscriberMarks({"alice/n": {"press/i": 7}}, ("bob/n",)),
    Multicast(ENVELOPE),
    Publicise("topic = 'quotes'", FILTER),
    Attach(),
    gl.Propose(3, 5, (PROPOSAL,)),
    gl.ProposalsSettled(3, (("press", "i-7"),)),
    gl.Replicate(3, 8, (PlacedEvent(9, PROPOSAL),), 8, 2),
    gl.Replicated(3, 9, 4, True),
    gl.LogStateRequest(3),
    gl.LogState(3, 2, 8, (PlacedEvent(9, PROPOSAL),), 4),
    gl.AdoptLog(3, 8, (PlacedEvent(9, PROPOSAL),)),
    gl.LogCopyRequest(3, 8),
    gl.LogCopyPage(3, 8, 9, (PlacedEvent(9, PROPOSAL),), 9, (Put("t", "k", b"v"),)),
    gl.AdoptLogPages(3, 8, 900),
    gl.TailRequest(3, 8),
    gl.TailReply(3, 8, (PlacedEvent(9, PROPOSAL),)),
    TakenOver((("alice", "n", 1.5),)),
    SubscriptionQuery(3, "alice", "n"),
    SubscriptionQueryReply(3, 9),
    KeepaliveRequest(4),
    KeepaliveReply(4),
    m.Quench("00ff", True),
    Refer("00ff", "b1", -1),
    ToService(ENVELOPE, ("00ff", "11ee")),
    GroupInterest(FILTER, 3, "b1", -1),
    ToGroups(ENVELOPE, (1, 3)),
    sj.OnLan(ENVELOPE, True),
    sj.Subject("quotes/+", True),
    sj.SubjectSet(("quotes/+", "news"), True),
    sj.ToRouters(ENVELOPE, ("b4", "b8")),
    sj.CacheRequest("b1", 2, ("quotes/#",), True),
    sj.CacheReply(2, (ENVELOPE,)),
    pw.PrefixJoin(("b7", "127.0.0.1:7"), (("b1", ""), ("b2", "127.0.0.1:2")), 2),
    pw.PrefixJoinReply((("b1", ""), ("b2", "127.0.0.1:2"))),
    pw.PrefixHello((("b1", ""),), True, "127.0.0.1:7"),
    pw.CellRequest(("b7", ""), 0xFEDC_BA98_7654_3210),
    pw.RowRequest(2),
    pw.RowReply((("b1", ""), ("b2", "127.0.0.1:2"))),
    pw.PrefixSuspicion("b3"),
    pw.PrefixLeave((("b1", ""),)),
    rw.Graft("type:Quote", ("1f", 3), (FILTER,)),
    rw.Grafted("topic:a/b", ("1f", 3)),
    rw.Prune("topic:a/b", ("1f", 4)),
    rw.Climb(("topic:a/b", "any"), ENVELOPE, 2, "127.0.0.1:7"),
    rw.Descend(("topic:a/b",), ENVELOPE),
    rw.KeyUnwanted("any", 10.0),
    rw.KeyWanted("any"),
    rw.Enrol("cell:7", "b4", ("1f", 5), (FILTER,), 2, "127.0.0.1:4"),
    rw.Enrolled("cell:7", ("1f", 5)),
)  # fmt: skip

# Messages that got fields at their end within this wire version: the frame of EXAMPLES, which lacks them, is
# read with their defaults, and these are the frames as they are written now.
GROWN: tuple[m.Message, ...] = (
    m.DeliverAll(1, 300, (EVENT,) * 3, "b0", (9, 10, 300)),
    m.Welcome("b0", "b0", event_bytes=1 << 20),
    m.Hello("ann", "i1", owner="ann", memory=1 << 28),
    m.HoldLog(1, "spark", FILTER, 7, 60.0, True, "b0", 1 << 30, False),
    m.LogHeld(1, "b0", 2, 9, 7, True, 6),
    m.ReadLog(1, FILTER, 2, 3, "b0", True),
    m.Nack(1, (4,), False, "no"),
    m.Subscribed(2, 1, "alice", "n", True, "mind", "x > 1"),
    Interest("subscriptions", (FILTER,), ("00ff",), True, "b0.1f/2e", 3, False, 1, 3),
    gl.Propose(3, 7, (PROPOSAL,), 6),
    gl.ProposalsSettled(3, (("ann", "a-1"),), (("ann", "a-2"),)),
    gl.Replicate(3, 8, (PlacedEvent(9, PROPOSAL),), 8, 2, "d2: no space left"),
    gl.Replicated(3, 9, 4, True, "no space left"),
    gl.LogStateRequest(3, True, 7),
    gl.LogState(3, 2, 8, (PlacedEvent(9, PROPOSAL),), 4, 900),
    gl.LogCopyRequest(3, 8, True, "t\0k"),
    gl.LogCopyPage(3, 8, 9, (PlacedEvent(9, PROPOSAL),), 9, (Put("t", "k", b"v"),), "t\0k"),
    w.AckProgress((w.LogAck("b0", 9, 8, 40, True),)),
    w.ReplayRequest("b0", 4, FILTER, 3, 5, 2.5, 100, ("b2", "b1"), False),
    w.ReplayRequests((w.ReplayRequest("b0", 4, FILTER, 3, 5, 2.5, 100, ("b2", "b1"), False),)),
    runtime_messages.OpenSession(
        "broker", "b1", "tidings", "scram", b"\x00", "acme", "tidings://h:1", 2, 64 << 20, 1
    ),
    runtime_messages.SessionOpened("b0", "tidings", b"\x03", "tidings://h:2", 64 << 20, 1, "_inbox/ann"),
)


def declared() -> list[type[m.Message]]:
    """Every message of every strategy that some system is made of."""
    site = Site(name="b0", neighbours=("b1",), brokers=("b0", "b1"), links=(("b0", "b1"),))
    found: dict[type[m.Message], None] = dict.fromkeys((*m.CLIENT_MESSAGES, *m.BROKER_MESSAGES))
    for system in systems():
        for strategy in system.strategies(site).values():
            found.update(dict.fromkeys(strategy.messages))
    return list(found)


def all_tags() -> dict[str, list[str]]:
    """Tags of every union that frames and stores hold, sorted, by what the union is of."""
    unions: dict[str, Iterable[type]] = {
        "messages": [*declared(), *(type(message) for message in EXAMPLES)],
        "constraints": get_args(Constraint),
        "expressions": get_args(Expression),
        "records": get_args(Record),
        "steps of a plan": get_args(Step),
    }
    return {name: sorted({m.tag_of(kind) for kind in kinds}) for name, kinds in unions.items()}


def codec() -> Codec:
    return Codec([*declared(), *(type(message) for message in EXAMPLES)])


def write_missing() -> list[Path]:
    made = []
    for folder, messages in ((FOLDER, EXAMPLES), (FOLDER / "grown", GROWN)):
        folder.mkdir(parents=True, exist_ok=True)
        for message in messages:
            path = folder / f"{m.tag_of(type(message))}.bin"
            if not path.exists():
                path.write_bytes(codec().encode(message))
                made.append(path)
    return made


if __name__ == "__main__":
    for path in write_missing():
        print(f"wrote {path.name}")
