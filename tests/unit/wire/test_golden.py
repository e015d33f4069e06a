"""Golden files: frames of this wire version as they were written once and for all."""

from __future__ import annotations

import pytest
from tests.unit.wire._golden import EXAMPLES, FOLDER, GROWN, codec, declared

from tidings.protocol.messages import Message

NAMES = [type(message).__name__ for message in EXAMPLES]
GROWN_NAMES = [type(message).__name__ for message in GROWN]


@pytest.mark.parametrize("message", EXAMPLES, ids=NAMES)
def test_the_golden_frame_is_read_and_written_as_ever(message: Message) -> None:
    frame = (FOLDER / f"{type(message).__name__}.bin").read_bytes()
    assert codec().decode(frame) == message
    if type(message).__name__ not in GROWN_NAMES:
        assert codec().encode(message) == frame


@pytest.mark.parametrize("message", GROWN, ids=GROWN_NAMES)
def test_a_message_with_fields_at_its_end_is_read_and_written_as_ever(message: Message) -> None:
    frame = (FOLDER / "grown" / f"{type(message).__name__}.bin").read_bytes()
    assert codec().decode(frame) == message
    assert codec().encode(message) == frame


def test_every_message_of_every_system_has_its_frame() -> None:
    assert {each.__name__ for each in declared()} <= set(NAMES), "add it to EXAMPLES and write its file"
    assert {path.stem for path in FOLDER.glob("*.bin")} == set(NAMES)
    assert {path.stem for path in (FOLDER / "grown").glob("*.bin")} == set(GROWN_NAMES)
    assert len(set(NAMES)) == len(NAMES)


def test_examples_leave_no_field_at_its_default() -> None:
    """A field that an example leaves out would not be pinned down by its file."""
    bare = []
    for message in (*(each for each in EXAMPLES if type(each).__name__ not in GROWN_NAMES), *GROWN):
        for name, default in zip(
            reversed(message.__struct_fields__), reversed(message.__struct_defaults__), strict=False
        ):
            if name not in ("version",) and getattr(message, name) == default:
                bare.append(f"{type(message).__name__}.{name}")
    assert bare == ["Subscribe.named"]  # its default, True, is what goes with durable
