"""Codes for an open world: what a row is like and which label it has, weighed when a query is asked."""
