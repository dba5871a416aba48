"""The embedded store: SQLite for what must last, an index in memory for searches."""
