"""How healthy a table's files are: a score with its reasons, from metadata and without a JVM."""
