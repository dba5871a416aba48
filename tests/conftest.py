"""Makes this folder importable for what test modules share."""
