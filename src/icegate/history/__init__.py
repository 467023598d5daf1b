"""What a table was, and what changed between two of its versions."""
