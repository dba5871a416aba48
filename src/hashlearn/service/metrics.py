"""Figures for Prometheus: requests, queues, failed logins, rows of collections, and the process itself."""

from __future__ import annotations

from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

from hashlearn.collection.health import Health

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


@dataclass(frozen=True)
class QueueMetrics:
    """The figures of one work queue."""

    waiting: Gauge
    working: Gauge
    refused: Counter
    wait_seconds: Histogram


class Metrics:
    """One registry per server, so that the figures of several servers in one process do not mix."""

    def __init__(self) -> None:
        registry = self._registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self._requests = Counter(
            "hashlearn_requests", "Requests answered.", ("method", "route", "status"), registry=registry
        )
        self._seconds = Histogram(
            "hashlearn_request_seconds", "Seconds to answer.", ("method", "route"), registry=registry, buckets=_BUCKETS
        )
        self.under_way = Gauge("hashlearn_requests_under_way", "Requests not yet answered.", registry=registry)
        self.failed_logins = Counter("hashlearn_failed_logins", "Requests with a wrong token.", registry=registry)
        self.held_bytes = Gauge("hashlearn_held_bytes", "Bytes of request bodies in memory.", registry=registry)
        self._rows = Gauge("hashlearn_collection_rows", "Rows of a collection.", ("collection",), registry=registry)
        figures = (
            ("queries", "Queries by vectors, texts or pictures since the start."),
            ("near_threshold", "Share of query bits that are 60 : 40 at best."),
            ("confidence", "Mean size of the expected bits of queries, 0 to 1."),
            ("trained_confidence", "The same on training rows."),
            ("distinct_codes", "Distinct codes of the first 10,000 rows."),
        )
        self._health = {
            name: Gauge(f"hashlearn_collection_{name}", text, ("collection",), registry=registry)
            for name, text in figures
        }
        queue = ("queue",)
        self._waiting = Gauge("hashlearn_queue_waiting", "Requests that wait for a thread.", queue, registry=registry)
        self._working = Gauge("hashlearn_queue_working", "Threads that work.", queue, registry=registry)
        self._refused = Counter("hashlearn_queue_refused", "Requests refused as busy.", queue, registry=registry)
        self._wait_seconds = Histogram(
            "hashlearn_queue_wait_seconds",
            "Seconds until a thread is free.",
            queue,
            registry=registry,
            buckets=_BUCKETS,
        )

    def of_queue(self, name: str) -> QueueMetrics:
        """Return the figures of the queue with this name."""
        return QueueMetrics(
            self._waiting.labels(name),
            self._working.labels(name),
            self._refused.labels(name),
            self._wait_seconds.labels(name),
        )

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        # Whatever a client sends as a method must not make a new time series.
        known = method if method in _METHODS else "other"
        self._requests.labels(known, route, str(status)).inc()
        self._seconds.labels(known, route).observe(seconds)

    def text(self, health: dict[str, Health]) -> bytes:
        """Return all figures in Prometheus' text format; ``health`` is that of every collection."""
        for gauge in (self._rows, *self._health.values()):
            gauge.clear()
        for collection, figures in health.items():
            self._rows.labels(collection).set(figures.rows)
            for name, gauge in self._health.items():
                if (value := getattr(figures, name)) is not None:
                    gauge.labels(collection).set(value)
        return generate_latest(self._registry)
