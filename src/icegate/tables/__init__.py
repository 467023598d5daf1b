"""Iceberg tables: what they are, what a model wants of them, and the way from one to the other."""
