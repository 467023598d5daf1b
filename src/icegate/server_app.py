"""What `icegate server` has spark-submit run: a Spark that answers Connect until its Java ends.

With HiveServer2's own variable for a port it answers Thrift as well.

Not Spark's own `SparkConnectServer`: that one gives each session a class loader of its own, so that
all generated code is compiled again in each run of dbt. The settings are `server_launch`'s.
"""

import os
import sys

if __name__ == "__main__":
    del sys.path[0]  # this folder, whose modules would stand for others of the same name
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.getOrCreate()
    if "HIVE_SERVER2_THRIFT_PORT" in os.environ:
        assert spark._jvm is not None
        thrift = spark._jvm.org.apache.spark.sql.hive.thriftserver.HiveThriftServer2
        thrift.startWithSparkSession(spark._jsparkSession, True)  # ends Spark where it fails
    sys.stdin.read()  # a pipe from Java
