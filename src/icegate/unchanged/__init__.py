"""Nodes whose table already has what they would make, so that they needn't run."""
