"""Merges: how the rows of a batch get into a table at the least cost."""
