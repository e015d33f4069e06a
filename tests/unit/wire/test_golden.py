"""Golden files: frames of this wire version as they were written once and for all."""

from __future__ import annotations

import json

import pytest
from tests.unit.wire._golden import EXAMPLES, FOLDER, GROWN, TAGS, all_tags, codec, declared

from tidings.protocol.messages import DeliverAll, Message, Publish, tag_of
from tidings.wire.codec import FrameReader, PublishAll

NAMES = [tag_of(type(message)) for message in EXAMPLES]
GROWN_NAMES = [tag_of(type(message)) for message in GROWN]


@pytest.mark.parametrize("message", EXAMPLES, ids=NAMES)
def test_the_golden_frame_is_read_and_written_as_ever(message: Message) -> None:
    frame = (FOLDER / f"{tag_of(type(message))}.bin").read_bytes()
    if isinstance(message, PublishAll):  # the reader of frames alone has its events
        assert FrameReader(codec()).feed(frame) == [
            Publish(message.call + place, event, message.sequence + place, message.mode)  # type: ignore[arg-type]
            for place, event in enumerate(message.events)
        ]
    else:
        assert codec().decode(frame) == message
    if tag_of(type(message)) not in GROWN_NAMES:
        assert codec().encode(message) == frame


@pytest.mark.parametrize("message", GROWN, ids=GROWN_NAMES)
def test_a_message_with_fields_at_its_end_is_read_and_written_as_ever(message: Message) -> None:
    frame = (FOLDER / "grown" / f"{tag_of(type(message))}.bin").read_bytes()
    assert codec().decode(frame) == message
    assert codec().encode(message) == frame


def test_deliveries_that_no_log_holds_are_written_without_the_new_fields() -> None:
    """They are the most common of all, and the version before reads them."""
    (plain,) = [message for message in EXAMPLES if isinstance(message, DeliverAll)]
    assert codec().encode(plain) == (FOLDER / "DeliverAll.bin").read_bytes()


def test_every_message_of_every_system_has_its_frame() -> None:
    assert {tag_of(each) for each in declared()} <= set(NAMES), "add it to EXAMPLES and write its file"
    assert {path.stem for path in FOLDER.glob("*.bin")} == set(NAMES)
    assert {path.stem for path in (FOLDER / "grown").glob("*.bin")} == set(GROWN_NAMES)
    assert len(set(NAMES)) == len(NAMES)


def test_tags_are_those_of_the_last_version() -> None:
    """A tag is what peers and stores read: a class may be renamed, its tag may not.

    A new tag joins the list.
    """
    assert all_tags() == json.loads(TAGS.read_text())


def test_a_renamed_class_has_the_same_bytes() -> None:
    class Renamed(Message, frozen=True, tag="Goodbye"):
        reason: str

    assert codec().encode(Renamed("stops")) == (FOLDER / "Goodbye.bin").read_bytes()
    assert tag_of(Renamed) == "Goodbye"


def test_examples_leave_no_field_at_its_default() -> None:
    """A field that an example leaves out would not be pinned down by its file."""
    bare = []
    for message in (*(each for each in EXAMPLES if tag_of(type(each)) not in GROWN_NAMES), *GROWN):
        for name, default in zip(
            reversed(message.__struct_fields__), reversed(message.__struct_defaults__), strict=False
        ):
            if name not in ("version",) and getattr(message, name) == default:
                bare.append(f"{tag_of(type(message))}.{name}")
    assert bare == ["Subscribe.named"]  # its default, True, is what goes with durable
