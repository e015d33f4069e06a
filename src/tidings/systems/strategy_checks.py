"""Checks on strategies of other packages: of their classes before a broker is made of them, and of results
that a broker calculates with."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

from tidings.errors import SettingsError
from tidings.extensions import failed, package_of_module
from tidings.protocol.messages import Message, tag_of
from tidings.protocol.slots import Routing, Strategy

ROLES = ("tidings.protocol.roles", "tidings.protocol.slots")
OWN = "tidings"


@cache
def check_strategy(kind: type[Strategy], *, has_links: bool) -> None:
    """Refuse a strategy that could never work: its methods would not be called, or with other arguments."""
    name = f"the strategy {kind.__qualname__} of {_home(kind)}"
    _check_messages(kind, name)
    if kind.on_message is not Strategy.on_message and not kind.messages:
        raise SettingsError(
            f"{name} has on_message and no messages: none would reach it",
            hint="list the classes of its messages: messages = (MyMessage,)",
        )
    if has_links and issubclass(kind, Routing) and kind.forward is Routing.forward:
        raise SettingsError(
            f"{name} has no method forward: no event would leave a broker",
            hint="def forward(self, envelope, at, came_from, now), as docs/extending.md shows",
        )
    for method, base in _methods(kind, (OWN,)):
        own = getattr(kind, method)
        if inspect.iscoroutinefunction(own) or inspect.isasyncgenfunction(own):
            raise SettingsError(
                f"{name}: {method} is a coroutine function, which nothing awaits",
                hint=f"def {method}{inspect.signature(base)}; a strategy waits by messages and next_deadline",
            )
    for method, base in _methods(kind, ROLES):
        wanted = inspect.signature(base)
        try:
            inspect.signature(getattr(kind, method)).bind(*[None] * len(wanted.parameters))
        except TypeError as error:
            raise SettingsError(f"{name}: {method}: {error}", hint=f"it is {method}{wanted}") from None


def _check_messages(kind: type[Strategy], name: str) -> None:
    messages: Any = kind.messages
    fits = isinstance(messages, tuple) and all(
        isinstance(each, type) and issubclass(each, Message) for each in messages
    )
    if not fits:
        raise SettingsError(
            f"{name} has messages = {messages!r}, which is no tuple of classes of messages",
            hint="a tuple of one has a comma: messages = (MyMessage,)",
        )
    for message in messages:
        other = _of_the_product().get(tag_of(message))
        if _is_own(message) or other is None:
            continue
        raise SettingsError(
            f"{name}: its message {message.__qualname__} has the tag {tag_of(message)!r}, which is that of "
            f"{other.__qualname__} of {other.__module__}",
            hint=f'give it a tag with a prefix of your own: tag="mine.{tag_of(message)}"',
        )


def _of_the_product() -> dict[str, type[Message]]:
    """The product's own messages by tag."""
    found: dict[str, type[Message]] = {}
    waiting: list[type[Message]] = [Message]
    while waiting:
        kind = waiting.pop()
        waiting += kind.__subclasses__()
        if _is_own(kind) and kind is not Message:
            found[tag_of(kind)] = kind
    return found


def _is_own(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == OWN


def _home(kind: type) -> str:
    """The module of a class. One that a function made by `type(...)` may have another's name."""
    modules = [each.__module__ for each in kind.__mro__]
    return next((each for each in modules if package_of_module(each) is not None), modules[0])


def _methods(kind: type[Strategy], modules: tuple[str, ...]) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Methods that a strategy of another distribution overrides, and those of these modules, or of modules in
    these packages, that they override."""
    if _is_own(kind):
        return
    for method in dir(kind):
        own = inspect.getattr_static(kind, method)
        if method.startswith("_") or not inspect.isfunction(own):
            continue
        for each in kind.__mro__:
            base = vars(each).get(method)
            is_there = each.__module__ in modules or each.__module__.partition(".")[0] in modules
            if is_there and inspect.isfunction(base) and base is not own:
                yield method, base
                break


# Results


def check_results(strategy: Strategy) -> None:
    """Have the results of a strategy of another package checked where a broker calculates with them."""
    kind = type(strategy)
    for method, wrong in _WRONG.items():
        own = getattr(kind, method, None)
        if own is not None and not _is_own_function(own):
            setattr(strategy, method, _checked(getattr(strategy, method), kind, method, wrong))


def _is_own_function(function: Any) -> bool:
    return str(getattr(function, "__module__", "")).partition(".")[0] == OWN


def _checked(
    function: Callable[..., Any], kind: type, method: str, wrong: Callable[[Any, Sequence[Any]], str]
) -> Callable[..., Any]:
    def called(*arguments: Any) -> Any:
        value = function(*arguments)
        if expected := wrong(value, arguments):
            home = _home(kind)
            package = package_of_module(home) or home
            raise failed(package, f"{kind.__qualname__}.{method} gave {value!r} and has to give {expected}")
        return value

    return called


def _wrong_deadline(value: Any, _: Sequence[Any]) -> str:
    is_moment = isinstance(value, int | float) and value == value
    return "" if value is None or is_moment else "a moment in seconds, or None"


def _wrong_staying(value: Any, arguments: Sequence[Any]) -> str:
    fits = isinstance(value, Sequence) and not isinstance(value, str) and len(value) == len(arguments[0])
    return "" if fits else "a sequence of bool, one for each event"


_WRONG: dict[str, Callable[[Any, Sequence[Any]], str]] = {
    "next_deadline": _wrong_deadline,
    "staying": _wrong_staying,
}
