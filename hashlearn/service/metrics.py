"""Counts for Prometheus: requests by route and status, their seconds, what is under way, rows of collections."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Metrics:
    """One registry a server, so that several in one process do not mix."""

    def __init__(self) -> None:
        registry = CollectorRegistry()
        self._registry = registry
        names = ("method", "route")
        self._requests = Counter("hashlearn_requests", "Requests answered.", (*names, "status"), registry=registry)
        self._seconds = Histogram(
            "hashlearn_request_seconds", "Seconds to answer.", names, registry=registry, buckets=_SECONDS
        )
        self.under_way = Gauge("hashlearn_requests_under_way", "Requests not yet answered.", registry=registry)
        self._rows = Gauge("hashlearn_collection_rows", "Rows of a collection.", ("collection",), registry=registry)

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        # Whatever a client sends as a method must not make new time series.
        known = method if method in _METHODS else "other"
        self._requests.labels(known, route, str(status)).inc()
        self._seconds.labels(known, route).observe(seconds)

    def text(self, rows: dict[str, int]) -> bytes:
        for name, count in rows.items():
            self._rows.labels(name).set(count)
        return generate_latest(self._registry)
