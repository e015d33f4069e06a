"""A filter whose evaluation fails by a defect of ours: it alone is unknown, its owner is told, nothing else
is lost; and a publish that failed inside the broker may be tried again."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.unit.protocol._stage import Stage

from tidings.language import parse_filter
from tidings.language.evaluate import accepts
from tidings.language.functions import FUNCTIONS
from tidings.language.unexpected import FAILURES, UnexpectedFailures
from tidings.matching.columnar.matcher import ColumnarMatcher
from tidings.matching.naive import NaiveMatcher
from tidings.matching.small import SmallMatcher
from tidings.model.event import make_event
from tidings.protocol.delivery.dispatcher import Dispatcher
from tidings.protocol.effects import Warn


def _raises(text: str) -> str:
    raise RuntimeError(f"no answer for {text}")


@pytest.fixture
def defect(monkeypatch: pytest.MonkeyPatch) -> None:
    """TRIM raises, as a function with a defect would."""
    broken = msgspec.structs.replace(FUNCTIONS["TRIM"], run=_raises, cesql=_raises)
    monkeypatch.setitem(FUNCTIONS, "TRIM", broken)
    fresh = UnexpectedFailures()
    monkeypatch.setattr(FAILURES, "_known", fresh._known)
    monkeypatch.setattr(FAILURES, "news", fresh.news)


@pytest.mark.usefixtures("defect")
@pytest.mark.parametrize("matcher", [NaiveMatcher, SmallMatcher, ColumnarMatcher])
@pytest.mark.parametrize("dialect", ["tidings", "cesql"])
def test_only_the_conjunction_that_fails_is_unknown(matcher: type, dialect: str) -> None:
    engine = matcher()
    filters = [
        parse_filter(text, dialect=dialect)
        for text in ("TRIM(s) = 'a'", "TRIM(s) = 'a' OR n = 1", "n = 1", "n = 1 AND TRIM(s) = 'a'")
    ]
    handles = [engine.add(filter) for filter in filters]
    count = FAILURES.count
    event = make_event({"s": "a", "n": 1}, source="s", id="1")
    found = set(engine.match(event))
    assert handles[2] in found
    assert not {handles[0], handles[3]} & found
    assert FAILURES.count > count
    assert [accepts(filter, event) for filter in filters] == [handle in found for handle in handles]


class _Warned(Stage):
    def __init__(self, **options: Any) -> None:
        self.warnings: list[str] = []
        super().__init__(**options)

    def _place(self, name: str, effect: Any) -> None:
        if isinstance(effect, Warn):
            self.warnings.append(effect.text)
        else:
            super()._place(name, effect)


@pytest.mark.usefixtures("defect")
def test_a_filter_that_fails_costs_its_owner_alone_and_is_told_once() -> None:
    stage = _Warned()
    p, eve, ann = stage.client("p"), stage.client("eve"), stage.client("ann")
    poisoned, fine = stage.subscribed(eve, "TRIM(s) = 'a'", name="bad"), stage.subscribed(ann, "n >= 0")
    for n in range(3):
        stage.published(p, {"n": n, "s": "a"})
    assert stage.drain(ann, fine) == [0, 1, 2]
    assert stage.drain(eve, poisoned) == []
    assert stage.lost[eve, poisoned] == {"the filter failed": 1}
    assert [("eve/bad" in text, "RuntimeError" in text) for text in stage.warnings] == [(True, True)]
    assert stage.node.figures()["filters failed"] >= 3


def test_a_publish_that_failed_in_the_match_is_new_when_it_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was acknowledged as a duplicate, and no subscriber had it."""
    stage = Stage()
    p, s = stage.client("p"), stage.client("s")
    ref = stage.subscribed(s, "n >= 0")
    stage.published(p, {"n": 1})
    interest = stage.node._ports.interest
    with monkeypatch.context() as patched:
        patched.setattr(interest, "match", _raises)
        call = stage.publish(p, {"n": 2})
        with pytest.raises(RuntimeError, match="no answer"):
            stage.settle()
    stage.cut(p)
    stage.link(p)
    stage.settle()
    assert call in stage.answers
    stage.published(p, {"n": 3})
    assert stage.drain(s, ref) == [1, 2, 3]
    assert stage.node.figures()["duplicate publishes"] == 0


def test_a_publish_that_failed_at_one_subscription_reaches_the_others_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The publisher tries again what was not answered: those that have it do not get it twice, and none of
    the others loses it."""
    stage = Stage()
    p, names = stage.client("p"), [stage.client(f"s{number}") for number in range(3)]
    refs = [stage.subscribed(name, window=10) for name in names]
    stage.published(p, {"n": 1})
    right = Dispatcher._send

    def fails(self: Any, state: Any, member: Any, *arguments: Any) -> Any:
        if member.address == names[1]:
            raise RuntimeError("a defect")
        return right(self, state, member, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Dispatcher, "_send", fails)
        call = stage.publish(p, {"n": 2})
        with pytest.raises(RuntimeError, match="a defect"):
            stage.settle()
    stage.cut(p)
    stage.link(p)
    stage.settle()
    assert call in stage.answers
    stage.published(p, {"n": 3})
    assert [stage.drain(names[each], refs[each]) for each in (0, 2)] == [[1, 2, 3], [1, 2, 3]]
    assert stage.ended[names[1], refs[1]][0] == "error"
