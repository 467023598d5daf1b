"""The command line: one module per command, each reads options and calls one function."""
