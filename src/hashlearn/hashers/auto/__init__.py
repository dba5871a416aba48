"""Choice between codes by searches in a database of known and unknown labels (``trial``), shown by ``report``."""
