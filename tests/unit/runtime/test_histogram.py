"""Histograms of time: fixed buckets, and the whole way from a publish to the page that Prometheus reads."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.runtime.histogram import BOUNDS, Histogram, quantile
from tidings.runtime.metrics import exposition


@settings(deadline=None, max_examples=100)
@given(st.lists(st.floats(0, 100), max_size=50))
def test_each_bucket_holds_what_took_at_most_so_long(times: list[float]) -> None:
    histogram = Histogram()
    for seconds in times:
        histogram.observe(seconds)
    figures = histogram.figures()
    expected = [sum(seconds <= bound for seconds in times) for bound in (*BOUNDS, math.inf)]
    assert figures["buckets"] == expected
    assert figures["seconds"] == pytest.approx(sum(times))


def test_a_quantile_is_the_upper_end_of_its_bucket() -> None:
    histogram = Histogram()
    for seconds in [0.0004] * 98 + [0.02, 60.0]:
        histogram.observe(seconds)
    buckets = histogram.figures()["buckets"]
    assert quantile(buckets, 0.5) == 0.0005
    assert quantile(buckets, 0.99) == 0.025
    assert quantile(buckets, 1.0) == math.inf
    assert quantile([], 0.5) is None
    assert quantile(Histogram().figures()["buckets"], 0.5) is None


def test_the_page_shows_it_as_prometheus_wants_it() -> None:
    histogram = Histogram()
    histogram.observe(0.003)
    page = exposition(lambda: {"seconds to acknowledge": histogram.figures(), "kept": 3}, "b1")().decode()
    assert 'tidings_publish_duration_seconds_bucket{broker="b1",le="0.0025"} 0.0' in page
    assert 'tidings_publish_duration_seconds_bucket{broker="b1",le="0.005"} 1.0' in page
    assert 'tidings_publish_duration_seconds_bucket{broker="b1",le="+Inf"} 1.0' in page
    assert 'tidings_publish_duration_seconds_sum{broker="b1"} 0.003' in page
    assert "tidings_events_persisted_total" in page
