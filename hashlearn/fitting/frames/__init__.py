"""Frames: what methods of one kind share, from checked rows to a fitted hasher."""
