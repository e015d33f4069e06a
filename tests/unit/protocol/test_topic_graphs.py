"""Which groups an event is gossiped in, and which one joins, under each algorithm."""

from __future__ import annotations

from tidings.protocol.topic_graph import AllAbove, ClusterGroup, OneGroup, PublisherGroups, TopicGraph


def test_dam_2_publisher_groups_are_joined_for_all_topics_below() -> None:
    graph = PublisherGroups(("a", "a/b", "c"))
    assert graph.joins("a") == ("a", "a/b")
    assert set(graph.joins("/")) == {"/", "a", "a/b", "c"}
    assert graph.joins("a/b") == ("a/b",)
    assert graph.supers("a/b") == ()


def test_dam_2_an_event_of_an_unknown_topic_is_of_the_nearest_above() -> None:
    graph = PublisherGroups(("a", "a/b"))
    assert graph.above("a/x/y") == ("a",)
    assert graph.above("z") == ("/",)
    assert graph.joins("a/x") == ("a",), "whose events come in the group of a"
    assert graph.includes("a", "a/x")
    assert not graph.includes("/", "a/b"), "the root's own group is another"


def test_dam_2_subscriber_groups_reach_all_above_at_once() -> None:
    graph = AllAbove({"a/b": ("c",)})
    assert set(graph.supers("a/b")) == {"a", "c", "/"}
    assert graph.above("a/b")[0] == "a/b"
    assert graph.joins("a") == TopicGraph().joins("a") == ("a",)


def test_clusters_and_one_group_know_no_topics() -> None:
    for graph, own in ((ClusterGroup("cluster-1"), "cluster-1"), (OneGroup(), "/")):
        assert graph.above("a/b") == (own,)
        assert graph.includes(own, "x")
        assert graph.events_of(own) == "TRUE"
    assert ClusterGroup("cluster-1").joins("a/b") == ("cluster-1",)
