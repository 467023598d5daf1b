"""The databases that Iceberg's JDBC catalog keeps its rows in, without a JVM."""
