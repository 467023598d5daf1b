"""A small project on each of the shipped targets, run as its user does, by commands."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import yaml
from conftest import ROOT, make_home

from icegate.catalog import open_catalog
from icegate.connect import local_endpoint, thrift_port
from icegate.dbt_process import DBT
from icegate.settings import Lake, lake_from_target
from targets import (
    cluster,
    emr_cluster,
    emr_release,
    glue_server,
    nessie_server,
    postgres_server,
    rest_server,
    s3_server,
)

ICEGATE = (sys.executable, "-m", "icegate.cli.main")
# Each of them, by the shipped target whose keys it has; with a server the warm one of the home does
# the work, or one of another home that is known by its address.
TARGETS = {
    "local": "local",
    "connect": "connect",
    "connect, cluster": "connect",
    "thrift": "thrift",
    "postgres": "postgres",
    "postgres, connect": "postgres",
    "postgres, connect elsewhere": "postgres",
    "postgres, thrift elsewhere": "postgres",
    "nessie": "nessie",
    "postgres, s3": "postgres",
    "nessie, s3": "nessie",
    "postgres, connect, s3": "postgres",
    "glue, s3": "glue",
    "emr": "emr",
    "glue, s3, emr 7": "glue",
    "rest": "rest",
    "rest, s3": "rest",
}
ORDERS = """
{{ config(materialized='incremental', incremental_strategy='merge', unique_key='id') }}
select id, customer, amount from {{ ref('landed') }}
"""
MODELS = {
    "orders.sql": ORDERS,
    "totals.sql": "{{ config(materialized='table') }}\n"
    "select customer, sum(amount) as amount from {{ ref('orders') }} group by 1",
    "recent.sql": "{{ config(materialized='view') }}\nselect id from {{ ref('orders') }}",
    "past.sql": "{{ config(materialized='history', unique_key='id') }}\n"
    "select * from {{ ref('orders') }}",
    "scored.py": """
import pandas as pd
from pyspark.sql.functions import pandas_udf

def model(dbt, session):
    dbt.config(materialized="table")

    @pandas_udf("double")
    def half(amount: pd.Series) -> pd.Series:
        return amount / 2

    return dbt.ref("orders").select("id", half("amount").alias("score"))
""",
}
TESTS = {
    "models": [
        {
            "name": "orders",
            "columns": [
                {"name": "id", "data_tests": ["unique", "not_null"]},
                {"name": "customer", "meta": {"subject_key": "customer"}},
                {"name": "amount", "data_tests": ["not_null"]},
            ],
        },
        {
            "name": "totals",
            "columns": [{"name": "customer", "meta": {"subject_key": "customer"}}],
        },
        {
            "name": "past",
            "columns": [{"name": "customer", "meta": {"subject_key": "customer"}}],
        },
    ],
    "seeds": [
        {
            "name": "landed",
            "config": {"column_types": {"amount": "int"}},
            "columns": [{"name": "customer", "meta": {"subject_key": "customer"}}],
        }
    ],
}
ROWS = "id,customer,amount\n1,C-1001,5\n2,C-1002,7\n"


class Machine:
    """A project, and the machine that it's on."""

    objects: s3_server.S3Server | None = None  # where its tables are, if it's a bucket
    emr: emr_cluster.Emr
    node: emr_cluster.Primary
    dbt_command, icegate_command = DBT, ICEGATE

    def __init__(self, folder: Path, target: dict[str, Any], **environ: str) -> None:
        self.folder, self.home = folder / "a project", make_home(folder / "a home")
        own = {name: text for name, text in os.environ.items() if not name.startswith("DBT_")}
        self.environ = own | {"ICEGATE_HOME": str(self.home), **environ}
        target = {**target, "home": str(self.home), "memory": "1g"}
        project = {"name": "shop", "version": "1.0", "profile": "shop", "config-version": 2}
        flags = {"send_anonymous_usage_stats": False, "version_check": False}
        skips = {of: {"+skip_unchanged": True} for of in ("models", "seeds")}
        self.write("dbt_project.yml", yaml.safe_dump({**project, "flags": flags, **skips}))
        profile = {"target": "t", "outputs": {"t": target}}
        self.write("profiles.yml", yaml.safe_dump({"shop": profile}))
        for name, text in MODELS.items():
            self.write(f"models/{name}", text)
        self.write("models/shop.yml", yaml.safe_dump({"models": TESTS["models"]}))
        self.write("seeds/shop.yml", yaml.safe_dump({"seeds": TESTS["seeds"]}))
        self.land(ROWS)

    def write(self, path: str, text: str) -> None:
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_text(text)

    def retarget(self, **keys: Any) -> None:
        """Set keys of the target; those that are None go."""
        path = self.folder / "profiles.yml"
        profile = yaml.safe_load(path.read_text())
        target = {**profile["shop"]["outputs"]["t"], **keys}
        profile["shop"]["outputs"]["t"] = {k: v for k, v in target.items() if v is not None}
        path.write_text(yaml.safe_dump(profile))

    def land(self, rows: str) -> None:
        self.write("seeds/landed.csv", rows)

    def begin(self, *command: str, **environ: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            command,
            cwd=self.folder,
            env=self.environ | environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, *command: str, code: int = 0, **environ: str) -> str:
        process = self.begin(*command, **environ)
        said, _ = process.communicate(timeout=300)
        assert process.returncode == code, said
        return said

    def dbt(self, *args: str, code: int = 0, **environ: str) -> str:
        return self.run(*self.dbt_command, "--no-use-colors", *args, code=code, **environ)

    def icegate(self, *args: str, code: int = 0) -> str:
        return self.run(*self.icegate_command, *args, code=code)

    def submit_to(self, release: emr_release.Release) -> None:
        """Have all commands run in jobs of a release of EMR."""
        self.dbt_command, self.icegate_command = map(release.running, ("dbt", "icegate"))
        self.environ = emr_release.environ_of(release.submit, self.environ)
        self.retarget(master="submitted", memory=None)

    def kill(self, process: subprocess.Popen[str]) -> None:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()

    @property
    def lake(self) -> Lake:
        target = yaml.safe_load((self.folder / "profiles.yml").read_text())["shop"]["outputs"]["t"]
        for key in ("catalog_password", "master"):  # of a variable
            name = str(target.get(key) or "").partition("'")[2].partition("'")[0]
            target[key] = self.environ.get(name) or None
        return lake_from_target(target, self.folder)

    def rows(self, table: str) -> list[dict[str, Any]]:
        """Return the rows of main, sorted, as another reader sees them."""
        found = open_catalog(self.lake).load_table(f"main.{table}").scan().to_arrow().to_pylist()
        return sorted(found, key=lambda row: json.dumps(row, default=str))


@contextmanager
def machine(name: str, folder: Path) -> Iterator[Machine]:
    """Start what a target needs, and end it."""
    shipped = yaml.safe_load((ROOT / "profiles" / "profiles.yml").read_text())["icegate"]["outputs"]
    target, environ = {**shipped[TARGETS[name]]}, dict[str, str]()
    method = (
        "thrift"
        if "thrift" in name or name == "emr"
        else "connect"
        if "connect" in name
        else "session"
    )
    options = ["--thrift"] if method == "thrift" else []
    objects = None
    with ExitStack() as started:
        if name.startswith("postgres"):
            database = started.enter_context(postgres_server.running())
            target["warehouse"] = str(folder / "a warehouse")
            target["catalog_uri"] = database.make("lake")
            environ["DBT_ENV_SECRET_CATALOG_PASSWORD"] = postgres_server.PASSWORD
            target["method"] = method
        if name.startswith("nessie"):
            server = started.enter_context(nessie_server.running())
            target |= server.catalog("lake") | {"warehouse": str(folder / "a warehouse")}
            target.pop("catalog_token")
        if name.startswith(("glue", "emr")):
            both = started.enter_context(glue_server.running())
            target |= {"schema": "main", "warehouse": f"s3://{both.objects.bucket}/a warehouse"}
            environ |= both.environ
            objects = both.objects
        elif "s3" in name:
            objects = started.enter_context(s3_server.running())
            target["warehouse"] = f"s3://{objects.bucket}/a warehouse"
            environ |= objects.environ
        if name.startswith("rest"):
            with patch.dict(os.environ, environ):  # the server writes to the bucket, too
                served = started.enter_context(rest_server.running())
            own = {} if objects is None else {"bucket": target["warehouse"]}
            target |= served.catalog("lake", folder / "a warehouse", **own)
            target |= {"warehouse": own.get("bucket", str(folder / "a warehouse"))}
            for key in ("catalog_options", "catalog_token", "catalog_credential"):
                target.pop(key)
        if "cluster" in name:
            workers = started.enter_context(cluster.running(folder / "cluster"))
            environ["ICEGATE_MASTER"], target["spark_conf"] = workers.master, cluster.CONF
        if "elsewhere" in name:
            other = Machine(folder / "elsewhere", {**shipped["connect"], "memory": "1g"})
            _serve(other, options, started)
            endpoint = local_endpoint(other.lake)
            environ["DBT_ENV_SECRET_TOKEN"] = str(endpoint.token)
            address = f"sc://127.0.0.1:{endpoint.port}"
            target |= {"token": "{{ env_var('DBT_ENV_SECRET_TOKEN') }}", "user": "ann"}
            if method == "thrift":
                at = {"host": "127.0.0.1", "port": thrift_port(other.lake)}
                target |= {**at, "connect": address}
            else:
                target["host"] = address
        if name == "emr":
            own = {**os.environ, **environ}
            node = started.enter_context(
                emr_cluster.primary(folder / "primary", own, target["warehouse"])
            )
            target |= {"port": node.port, "connect": f"sc://:{node.connect_port}"}
            api = emr_cluster.Emr()
            environ["AWS_ENDPOINT_URL_EMR"] = started.enter_context(emr_cluster.serving(api))
            environ["ICEGATE_CLUSTER"] = "project=shop"
        made = Machine(folder, target, **environ)
        made.objects = objects
        if "emr 7" in name:
            made.submit_to(emr_release.RELEASES["emr-7"])
        if name == "emr":
            made.emr, made.node = api, node
            python = str(emr_release.EMR_8.python)
            made.dbt_command, made.icegate_command = (python, *DBT[1:]), (python, *ICEGATE[1:])
        if method != "session" and "elsewhere" not in name:
            _serve(made, options, started)
        yield made


def _serve(home: Machine, options: list[str], started: ExitStack) -> None:
    home.icegate("server", "start", *options)
    started.callback(home.icegate, "server", "stop")


def on_spark(lake: Lake, *statements: str) -> None:
    """Run them on a Spark of their own: a Java that runs has the AWS of those before it."""
    code = f"""
from icegate.session import start_session
from icegate.settings import Lake
session = start_session(Lake(**{lake.model_dump(mode="json")!r}))
for statement in {statements!r}:
    session.sql(statement).collect()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
