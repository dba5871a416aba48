"""The paper's tables, figures and plain loops. Nothing else in the library needs them."""
