"""The comparators, one file each."""
