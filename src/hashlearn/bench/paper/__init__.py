"""The paper's tables and figures. No other part of the library uses them, except the command line."""
