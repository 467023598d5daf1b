"""What stands for AWS's Glue on this machine, ministack, beside a real S3 server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from deploy import cloud
from icegate.aws import client
from targets import s3_server


def forget_tables() -> None:
    """Drop all databases of the account, with their tables."""
    for database in client("glue").get_databases()["DatabaseList"]:
        client("glue").delete_database(Name=database["Name"])


class GlueServer:
    """Both servers; the account has one lake at a time."""

    def __init__(self, aws: cloud.Cloud, objects: s3_server.S3Server) -> None:
        self.aws, self.objects = aws, objects

    @property
    def client(self) -> Any:
        return client("glue")

    @property
    def environ(self) -> dict[str, str]:
        """The variables of AWS that lead to both."""
        return {**self.objects.environ, "AWS_ENDPOINT_URL_GLUE": self.aws.url}

    def catalog(self, folder: str) -> dict[str, str]:
        """Forget all tables, and return what a lake has to know of the catalog."""
        forget_tables()
        return {"catalog_type": "glue", "bucket": f"s3://{self.objects.bucket}/{folder}"}


@contextmanager
def running() -> Iterator[GlueServer]:
    """Start both, to which this process's AWS leads, and end them."""
    with (
        TemporaryDirectory(prefix="icegate-server-") as folder,
        cloud.running(Path(folder)) as aws,
        s3_server.running() as objects,
        s3_server.using(AWS_ENDPOINT_URL_GLUE=aws.url),
    ):
        yield GlueServer(aws, objects)
