"""What several comparators share."""
