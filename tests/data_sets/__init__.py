"""A package, so that its conftest does not clash with that of another folder."""
