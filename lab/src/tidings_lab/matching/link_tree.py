"""Link matching: the search tree of every subscription, annotated with the links that lead to their
subscribers.

Gryphon's way to route (Virgillito 2003, 2.5.3; Banavar et al. 1999). A broker need not know who wants an
event, only over which links it has to go. Each node knows, for each link, whether a subscription behind it
ends here (*yes* for an event that gets here) or further down (*maybe*), or neither (*no*). The search carries
the links that are still open: one that has its yes is open no more, a branch without an open link is not
followed, and when none is open the search ends. So it visits no node that full matching would not, and mostly
far fewer.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidings.language.work import WorkIndex
from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings_lab.matching.tree import TreeMatcher, TreeNode, followed


class _Annotated(TreeNode):
    """`may`: by link, how many subscriptions end here or below."""

    __slots__ = ("may",)

    def __init__(self) -> None:
        super().__init__()
        self.may: dict[str, int] = {}


class LinkTree:
    """Filters, each with the links behind which it is wanted."""

    def __init__(self, *, order: tuple[str, ...] = (), factored: tuple[str, ...] = ()) -> None:
        self._tree = _AnnotatedTree(order=order, factored=factored)
        self._handles: dict[tuple[str, str], int] = {}  # by digest and link

    def __len__(self) -> int:
        return len(self._handles)

    @property
    def visited(self) -> int:
        """Nodes, by all events so far."""
        return self._tree.visited

    def put(self, filter: Filter, link: str) -> None:
        """Add a link behind which the filter is wanted."""
        if (filter.digest, link) not in self._handles:
            self._handles[filter.digest, link] = self._tree.add_for(filter, link)

    def take(self, filter: Filter, link: str) -> None:
        """Remove a link behind which the filter was wanted."""
        handle = self._handles.pop((filter.digest, link), None)
        if handle is not None:
            self._tree.remove(handle)

    def links(self, event: Event, among: Iterable[str]) -> set[str]:
        """The links, of these, behind which the event is wanted."""
        return self._tree.links(event, set(among))

    def check(self) -> None:
        self._tree.check()


class _AnnotatedTree(TreeMatcher):
    node = _Annotated

    def __init__(self, *, order: tuple[str, ...], factored: tuple[str, ...]) -> None:
        super().__init__(order=order, factored=factored)
        self._link_of: dict[int, str] = {}
        self._work = WorkIndex()

    def add_for(self, filter: Filter, link: str) -> int:
        handle = self.add(filter)
        self._link_of[handle] = link
        self._work.add(handle, filter)
        self._annotate(filter, link, +1)
        return handle

    def remove(self, handle: int) -> None:
        self._work.remove(handle)
        self._annotate(self._filters[handle], self._link_of.pop(handle), -1)
        super().remove(handle)

    def _annotate(self, filter: Filter, link: str, change: int) -> None:
        for conjunction in filter.conjunctions:
            key, path = self._path(conjunction)
            node = self._roots[key]
            _count(node, link, change)
            for constraint in path:
                node = self._child(node, constraint)
                _count(node, link, change)

    def links(self, event: Event, open: set[str]) -> set[str]:
        found = open & {
            self._link_of[handle] for handle in self._work.may_accept(event)
        }  # over budget: routed
        open -= found
        value_of = event.view.get
        waiting = self._begin(event)
        while waiting and open:
            node = waiting.pop()
            assert isinstance(node, _Annotated)
            if open.isdisjoint(node.may):
                continue
            self.visited += 1
            for (handle, _), residuals in node.ends.items():
                link = self._link_of[handle]
                if link in open and all(holds(event) for holds in residuals):
                    found.add(link)
                    open.discard(link)
            waiting += followed(node, value_of)
        return found

    def check(self) -> None:
        stored = 0
        for root in self._roots.values():
            assert isinstance(root, _Annotated)
            stored += sum(root.may.values())
        ends = sum(len(filter.conjunctions) for filter in self._filters.values())
        assert ends == stored, "annotations and filters differ"


def _count(node: TreeNode, link: str, change: int) -> None:
    assert isinstance(node, _Annotated)
    count = node.may.get(link, 0) + change
    if count:
        node.may[link] = count
    else:
        del node.may[link]
