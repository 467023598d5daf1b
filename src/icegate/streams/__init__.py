"""Streams: records of Kafka or of files that come, into Iceberg tables, each exactly once."""
