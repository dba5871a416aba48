"""The paper's tables, figures and plain loops. No other part of the library uses them, except the command line."""
