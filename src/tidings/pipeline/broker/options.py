"""The options of `format("tidings")`: what they are called, what they mean, what is wrong with them.

Spark shows options in plans and logs, so none of them is a secret: a password or a token is named by its
file, or is in the environment of the processes (`runtime/environment.py`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from difflib import get_close_matches

import msgspec

from tidings.errors import SettingsError
from tidings.model.decoding import UNREADABLE
from tidings.model.event import FOREVER
from tidings.model.filter import TIDINGS
from tidings.runtime.dialling import parse_addresses

FAIL, GO_ON = "fail", "go on"
LOST_CHECKPOINT = (FAIL, "resume", "restart")
ROW, COLUMNS = "row", "columns"  # where the identities of published rows come from
UNSTATED = ""  # the option `identity` is not given
IDENTITY = {
    "user": "TIDINGS_USER", "passwordfile": "TIDINGS_PASSWORD_FILE", "tokenfile": "TIDINGS_TOKEN_FILE",
    "certificate": "TIDINGS_CERTIFICATE", "key": "TIDINGS_KEY", "authority": "TIDINGS_AUTHORITY",
}  # fmt: skip
SECRETS = ("password", "token")
TIMEOUT = 60.0
EVENTS_PER_BATCH = 500_000
SAMPLES = 1_000
HOLD_SECONDS = 7 * 86_400.0
# what Spark itself puts among the options
OF_SPARK = ("path", "checkpointlocation", "queryname", "truncate")


class BrokerTarget(msgspec.Struct, frozen=True):
    """A broker, and the client's identity there. Travels to the executors; holds no secret."""

    address: str
    name: str
    timeout: float
    identity: tuple[tuple[str, str], ...]  # variables of the environment that the options name


class ReadOptions(msgspec.Struct, frozen=True):
    """Options of a source."""

    brokers: tuple[BrokerTarget, ...]
    filter: str | None
    dialect: str
    reader: str
    starting: str
    ending: str
    most_events: int
    partitions: int
    samples: int
    keep_seconds: float
    on_trimmed: str
    on_missing_log: str
    on_lost_checkpoint: str
    superseding: bool  # False: a stream reads events also when a newer one has their key


class WriteOptions(msgspec.Struct, frozen=True):
    """Options of a sink."""

    broker: BrokerTarget
    writer: str
    job: str
    batch: int
    topic: str | None
    lifetime: float
    part_events: int
    on_lost_checkpoint: str
    on_loop: str
    identity: str


_COMMON = ("broker", "brokers", "name", "timeout", *IDENTITY, *OF_SPARK)
_READING = (
    "filter", "dialect", "reader", "startingOffsets", "endingOffsets", "maxEventsPerBatch", "partitions",
    "samples", "keepSeconds", "onTrimmed", "onMissingLog", "onLostCheckpoint", "superseding",
)  # fmt: skip
_WRITING = (
    "writer", "job", "batch", "topic", "lifetime", "partEvents", "onLostCheckpoint", "onLoop", "identity",
)  # fmt: skip


def reading(options: Mapping[str, str]) -> ReadOptions:
    """The options of a source, checked."""
    given = _known(options, (*_COMMON, *_READING))
    return ReadOptions(
        brokers=_brokers(given),
        filter=given.get("filter"),
        dialect=given.get("dialect", TIDINGS),
        reader=given.get("reader", ""),
        starting=given.get("startingoffsets", "earliest"),
        ending=given.get("endingoffsets", "latest"),
        most_events=_number(given, "maxEventsPerBatch", EVENTS_PER_BATCH),
        partitions=_number(given, "partitions", 0, least=0),
        samples=_number(given, "samples", SAMPLES),
        keep_seconds=_seconds(given, "keepSeconds", HOLD_SECONDS),
        on_trimmed=_choice(given, "onTrimmed", (FAIL, GO_ON)),
        on_missing_log=_choice(given, "onMissingLog", (FAIL, GO_ON)),
        on_lost_checkpoint=_choice(given, "onLostCheckpoint", LOST_CHECKPOINT),
        superseding=_choice(given, "superseding", ("false", "true")) == "true",
    )


def writing(options: Mapping[str, str]) -> WriteOptions:
    """The options of a sink, checked."""
    given = _known(options, (*_COMMON, *_WRITING))
    brokers = _brokers(given)
    if len(brokers) != 1:
        raise SettingsError(
            f"a sink publishes at one broker, and {len(brokers)} are named",
            hint="what was committed is known only there; the network brings it to all others",
        )
    return WriteOptions(
        broker=brokers[0],
        writer=given.get("writer") or given.get("checkpointlocation", ""),
        job=given.get("job", ""),
        batch=_number(given, "batch", 0, least=0),
        topic=given.get("topic"),
        lifetime=_lifetime(given.get("lifetime", "0")),
        part_events=_number(given, "partEvents", 2_000),
        on_lost_checkpoint=_choice(given, "onLostCheckpoint", (FAIL, GO_ON)),
        on_loop=_choice(given, "onLoop", (FAIL, GO_ON)),
        identity=_choice(given, "identity", (ROW, COLUMNS)) if "identity" in given else UNSTATED,
    )


def places(text: str, option: str) -> dict[str, int]:
    """Offsets by log, as a user writes them: {"b1#1f": 100}."""
    try:
        found = msgspec.json.decode(text, type=dict[str, int])
    except UNREADABLE:
        raise SettingsError(
            f"{option} is {text!r}", hint='earliest, latest, or offsets by log: {"LOG": 100}'
        ) from None
    return found


def environment(where: BrokerTarget) -> dict[str, str]:
    """The environment with what the options name: who this connection is."""
    return {**os.environ, **dict(where.identity)}


def _known(options: Mapping[str, str], known: Iterable[str]) -> dict[str, str]:
    given = {str(key).lower(): str(value) for key, value in options.items()}
    names = {name.lower(): name for name in known}
    for key in given:
        if key in SECRETS:
            raise SettingsError(
                f"the option {key!r} would be seen in plans and logs",
                hint=f"name a file with {key}File, or set TIDINGS_{key.upper()} for the processes",
            )
        if key not in names:
            near = get_close_matches(key, names, n=1)
            hint = f"did you mean {names[near[0]]!r}?" if near else f"known are {', '.join(names.values())}"
            raise SettingsError(f"unknown option {key!r}", hint=hint)
    return given


def _brokers(given: Mapping[str, str]) -> tuple[BrokerTarget, ...]:
    text = given.get("brokers") or given.get("broker") or given.get("path", "")
    addresses = list(dict.fromkeys(map(str, parse_addresses(text)))) if text.strip() else []
    if not addresses:
        raise SettingsError(
            "no broker is named", hint='.option("brokers", "tidings://host:port"); several by commas'
        )
    user = given.get("user") or os.environ.get("TIDINGS_USER")
    identity = tuple((IDENTITY[key], given[key]) for key in IDENTITY if key in given)
    timeout = _seconds(given, "timeout", TIMEOUT)
    return tuple(
        BrokerTarget(address, given.get("name") or user or "spark", timeout, identity)
        for address in addresses
    )


def _number(given: Mapping[str, str], option: str, default: int, *, least: int = 1) -> int:
    text = given.get(option.lower())
    try:
        number = default if text is None else int(text)
    except ValueError:
        number = least - 1
    if number < least:
        raise SettingsError(f"{option} is {text!r}", hint=f"a whole number from {least} on")
    return number


def _seconds(given: Mapping[str, str], option: str, default: float) -> float:
    text = given.get(option.lower())
    try:
        seconds = default if text is None else float(text)
    except ValueError:
        seconds = -1.0
    if not seconds > 0:
        raise SettingsError(f"{option} is {text!r}", hint="seconds, above 0")
    return seconds


def _lifetime(text: str) -> float:
    if text.strip().lower() == "forever":
        return FOREVER
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not seconds >= 0:
        raise SettingsError(f"lifetime is {text!r}", hint="0, seconds, or forever")
    return seconds


def _choice(given: Mapping[str, str], option: str, choices: tuple[str, ...]) -> str:
    value = given.get(option.lower(), choices[0]).replace("_", " ").replace("-", " ").lower()
    if value not in choices:
        raise SettingsError(f"{option} cannot be {value!r}", hint=f"it is {' or '.join(choices)}")
    return value


def shown(offsets: Mapping[str, int]) -> str:
    return json.dumps(dict(sorted(offsets.items())))
