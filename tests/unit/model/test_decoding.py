"""Crowded JSON is found before it is decoded, by its tokens and not by signs inside of its texts."""

from __future__ import annotations

import json

import pytest

from tidings.model.decoding import LONGEST_REMEMBERED, MOST_JSON_TOKENS, is_crowded, remembering


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("{}", 1),
        ('{"a":1}', 3),
        ('{"a" :\t"b"}', 4),
        ('["a,b",":{[","\\"," ,"\\\\"]', 8),
        (json.dumps({"a": {"b": [1, 2, {}]}}), 10),
    ],
)
def test_tokens_are_counted_outside_of_texts(text: str, tokens: int) -> None:
    assert not is_crowded(text.encode(), tokens)
    assert is_crowded(text.encode(), tokens - 1)


def test_a_long_text_full_of_signs_is_one_token() -> None:
    assert not is_crowded(json.dumps({"a": '":{[,' * 100_000}).encode())


@pytest.mark.parametrize("one", ['"a{}":{{}}', '"a{}" : {{}}', '"a{}\\\\":{{}}', '"a{}":":"'])
def test_many_members_are_crowded_however_they_are_written(one: str) -> None:
    body = "{" + ",".join(one.format(number) for number in range(MOST_JSON_TOKENS // 3 + 1)) + "}"
    assert is_crowded(body.encode())


def test_only_short_texts_are_remembered() -> None:
    decoded: list[bytes] = []

    @remembering
    def decode(data: bytes) -> int:
        decoded.append(data)
        return len(data)

    short, long = b"x" * LONGEST_REMEMBERED, b"x" * (LONGEST_REMEMBERED + 1)
    assert [decode(data) for data in (short, short, long, long)] == [256, 256, 257, 257]
    assert decoded == [short, long, long]
