"""MQTT packets: what is written reads back, however it is cut; what is no packet is refused,
never a crash."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.gateway.mqtt import packets as mq
from tidings.gateway.mqtt.packets import V5, V311, Malformed, Packet, PacketKind
from tidings.gateway.mqtt.reading import PacketReader
from tidings.gateway.mqtt.writing import write

texts = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=20)
filters = texts.filter(bool)
names = texts.filter(lambda text: bool(text) and "+" not in text and "#" not in text)
ids = st.integers(1, 0xFFFF)
user = st.lists(st.tuples(texts, texts), min_size=1, max_size=3)


def properties(**known: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional={**known, "user": user})


wills = st.builds(
    mq.Will, names, st.binary(max_size=20), st.integers(0, 2), st.booleans(),
    properties(will_delay=st.integers(0, 2**32 - 1)),
)  # fmt: skip
packets = st.one_of(
    st.builds(
        mq.ConnectPacket, st.just(V5), texts, st.booleans(), st.integers(0, 0xFFFF), st.none() | wills,
        st.none() | texts,
        st.none() | st.binary(max_size=9), properties(session_expiry=st.integers(0, 2**32 - 1)),
    ),
    st.builds(
        mq.PublishPacket, names, st.binary(max_size=300), st.just(0), st.booleans(), st.just(False),
        st.just(0),
        properties(content_type=texts, message_expiry=st.integers(0, 9),
            correlation_data=st.binary(max_size=9)),
    ),
    st.builds(
        mq.PublishPacket, names, st.binary(max_size=300), st.integers(1, 2), st.booleans(), st.booleans(),
        ids,
        properties(topic_alias=ids),
    ),
    *[
        st.builds(mq.AckPacket, st.just(kind), ids, st.sampled_from(sorted(mq.REASONS[kind])),
        properties(reason=texts)) for kind in (PacketKind.PUBACK, PacketKind.PUBREC, PacketKind.PUBREL,
        PacketKind.PUBCOMP)
    ],
    st.builds(
        mq.SubscribePacket, ids,
        st.lists(st.builds(mq.SubscriptionRequest, filters, st.integers(0, 2), st.booleans(), st.booleans(),
            st.integers(0, 2)),
                 min_size=1, max_size=3),
        properties(subscription_id=st.lists(st.integers(1, 2**28 - 1), min_size=1, max_size=1)),
    ),
    st.builds(mq.UnsubscribePacket, ids, st.lists(filters, min_size=1, max_size=3), properties()),
    st.builds(mq.SubackPacket, ids, st.lists(st.integers(0, 255), max_size=3), properties(reason=texts)),
    st.builds(mq.UnsubackPacket, ids, st.lists(st.integers(0, 255), max_size=3)),
    st.builds(mq.ConnackPacket, st.integers(0, 255), st.booleans(), properties(receive_maximum=ids)),
    st.builds(mq.PingPacket, st.booleans()),
    st.builds(
        mq.DisconnectPacket,
        st.sampled_from(sorted(mq.REASONS[PacketKind.DISCONNECT] - {0})),
        properties(reason=texts),
    ),
    st.builds(mq.AuthPacket, st.sampled_from([0x18, 0x19]), properties(authentication_method=texts)),
)  # fmt: skip


def reader_for(packet: Packet) -> PacketReader:
    return PacketReader(2**20, 0 if isinstance(packet, mq.ConnectPacket) else V5)


def read_or_refused(reader: PacketReader, data: bytes) -> list[Packet] | Malformed:
    try:
        return list(reader.feed(data))
    except Malformed as error:
        return error


@settings(deadline=None, max_examples=300)
@given(packets, st.integers(1, 40))
def test_a_packet_reads_back_however_it_is_cut(packet: Packet, step: int) -> None:
    data = write(packet, V5)
    reader, found = reader_for(packet), []
    for at in range(0, len(data), step):
        found += reader.feed(data[at : at + step])
    assert found == [packet]


@settings(deadline=None, max_examples=500)
@given(st.sampled_from([0, V311, V5]), st.binary(max_size=80))
def test_any_bytes_are_packets_or_malformed(version: int, data: bytes) -> None:
    found = read_or_refused(PacketReader(64, version), data)
    assert isinstance(found, Malformed) or all(isinstance(packet, Packet) for packet in found)


@settings(deadline=None, max_examples=300)
@given(packets, st.data())
def test_a_spoiled_packet_is_read_or_refused(packet: Packet, data: st.DataObject) -> None:
    whole = bytearray(write(packet, V5))
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] = data.draw(st.integers(0, 255))
    found = read_or_refused(reader_for(packet), bytes(whole))
    assert not isinstance(found, Malformed) or found.reason >= 0x80


def test_what_follows_an_unsuback_of_an_old_version_is_no_list_of_reasons() -> None:
    with pytest.raises(Malformed):
        list(PacketReader(64, V311).feed(b"\xb0\x03\x00\x07\x00"))
    assert list(PacketReader(64, V311).feed(b"\xb0\x02\x00\x07")) == [mq.UnsubackPacket(7, [])]


@pytest.mark.parametrize("version", [V311, V5])
def test_a_packet_longer_than_the_bound_is_refused_before_it_is_here(version: int) -> None:
    with pytest.raises(Malformed) as delivered:
        list(PacketReader(100, version).feed(b"\x30\xff\x7f"))
    assert delivered.value.reason == mq.Reason.TOO_LARGE
