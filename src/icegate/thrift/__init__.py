"""A Spark Thrift server: SQL and its rows by HiveServer2's protocol, nothing more."""
