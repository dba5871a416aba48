"""The stores of collections, one folder or file per storage."""
