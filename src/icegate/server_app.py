"""What `icegate server` has spark-submit run: a Spark that answers Connect until its Java ends.

Not Spark's own `SparkConnectServer`: that one gives each session a class loader of its own, so that
all generated code is compiled again in each run of dbt. The settings are `server_launch`'s.
"""

import sys

if __name__ == "__main__":
    del sys.path[0]  # this folder, whose modules would stand for others of the same name
    from pyspark.sql import SparkSession

    SparkSession.builder.getOrCreate()
    sys.stdin.read()  # a pipe from Java
