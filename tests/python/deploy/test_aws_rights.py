"""Who may do what in the lake of deploy/aws/: a server holds each call against its policies."""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pytest
from botocore.exceptions import ClientError
from pyiceberg.catalog.glue import GlueCatalog
from pyiceberg.exceptions import NoSuchTableError
from released import add, ids, make, report, request
from targets.s3_server import using

from deploy.cloud import ACCOUNT, REGION, Cloud, running
from icegate.catalog import check_catalog
from icegate.errors import CatalogError
from icegate.gate.publish import finish
from icegate.settings import Lake

pytestmark = [
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore::urllib3.exceptions.InsecureRequestWarning"),
]

LAKE, WORK = f"icegate-lake-{ACCOUNT}-{REGION}", f"icegate-work-{ACCOUNT}-{REGION}"
GLUE = f"arn:aws:glue:{REGION}:{ACCOUNT}"
GOLD, SILVER = "icegate_lake_gold", "icegate_lake_silver"
ORDERS = {"Name": "fct_orders"}

# This server takes the name of a database for that of a table.
DATABASES_AS_TABLES = {
    "Version": "2012-10-17",
    "Statement": [
        {"Effect": "Allow", "Action": "glue:GetDatabase", "Resource": f"{GLUE}:table/icegate_*"}
    ],
}


class People(NamedTuple):
    """The lake as the account's owner, a job and a reader have it."""

    owner: Cloud
    job: Cloud
    reader: Cloud


def deployed(owner: Cloud) -> People:
    made = owner.deploy("lake")
    return People(
        owner, owner.user("job", made["WriterPolicy"]), owner.user("reader", made["ReaderPolicy"])
    )


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Iterator[People]:
    with running(tmp_path_factory.mktemp("cloud"), tls=True, AUTH="true") as owner:
        found = deployed(owner)
        glue, s3 = owner.client("glue"), owner.client("s3")
        for schema in (GOLD, SILVER):
            for table in ("fct_orders", "fct_orders__quarantine"):
                glue.create_table(DatabaseName=schema, TableInput={"Name": table})
                s3.put_object(Bucket=LAKE, Key=f"tables/{schema}/{table}/data/1", Body=b"rows")
        s3.put_object(Bucket=LAKE, Key="landing/1.jsonl", Body=b"{}")
        s3.put_object(Bucket=WORK, Key="app/current/job.py", Body=b"")
        glue.create_database(DatabaseInput={"Name": "finance"})
        glue.create_table(DatabaseName="finance", TableInput={"Name": "salaries"})
        yield found


def may(call: Callable[..., object], **arguments: object) -> bool:
    """Tell whether a call isn't refused for lack of a right; raise what else is wrong with it."""
    try:
        call(**arguments)
    except ClientError as error:
        if "AccessDenied" in error.response["Error"]["Code"]:
            return False
        raise
    return True


def decision(people: People, user: str, action: str, resource: str) -> str:
    """Return what IAM says: of Glue, this server asks for the right to a table's database only."""
    answer = people.owner.client("iam").simulate_principal_policy(
        PolicySourceArn=f"arn:aws:iam::{ACCOUNT}:user/{user}",
        ActionNames=[action],
        ResourceArns=[resource],
    )
    return answer["EvaluationResults"][0]["EvalDecision"]


def test_a_reader_reads_gold_and_no_other_layer(people: People) -> None:
    s3, glue = people.reader.client("s3"), people.reader.client("glue")
    assert may(s3.get_object, Bucket=LAKE, Key=f"tables/{GOLD}/fct_orders/data/1")
    assert may(glue.get_table, DatabaseName=GOLD, Name="fct_orders")
    assert not may(s3.get_object, Bucket=LAKE, Key=f"tables/{SILVER}/fct_orders/data/1")
    assert not may(glue.get_table, DatabaseName=SILVER, Name="fct_orders")
    assert not may(s3.get_object, Bucket=LAKE, Key="landing/1.jsonl")
    assert not may(s3.get_object, Bucket=WORK, Key="app/current/job.py")


def test_a_reader_gets_no_row_that_failed_a_test(people: People) -> None:
    s3 = people.reader.client("s3")
    assert not may(s3.get_object, Bucket=LAKE, Key=f"tables/{GOLD}/fct_orders__quarantine/data/1")
    table = f"{GLUE}:table/{GOLD}/fct_orders"
    assert decision(people, "reader", "glue:GetTable", table) == "allowed"
    held_back = f"{table}__quarantine"
    assert decision(people, "reader", "glue:GetTable", held_back) == "explicitDeny"
    assert not may(s3.list_objects_v2, Bucket=LAKE, Prefix=f"tables/{GOLD}/fct_orders/")


def test_a_reader_changes_nothing(people: People) -> None:
    s3, glue = people.reader.client("s3"), people.reader.client("glue")
    key = f"tables/{GOLD}/fct_orders/data/1"
    assert not may(s3.put_object, Bucket=LAKE, Key=key, Body=b"")
    assert not may(s3.delete_object, Bucket=LAKE, Key=key)
    assert not may(glue.update_table, DatabaseName=GOLD, TableInput=ORDERS)
    assert not may(glue.delete_table, DatabaseName=GOLD, Name="fct_orders")
    assert may(s3.put_object, Bucket=WORK, Key="results/1.csv", Body=b"")


def test_a_reader_queries_in_their_workgroup_only(people: People) -> None:
    athena = people.reader.client("athena")
    query = {"QueryString": "select 1", "QueryExecutionContext": {"Database": GOLD}}
    assert may(athena.start_query_execution, WorkGroup="icegate-readers", **query)
    assert not may(athena.start_query_execution, WorkGroup="primary", **query)
    assert not may(athena.delete_work_group, WorkGroup="icegate-readers")


def test_a_job_destroys_nothing(people: People) -> None:
    s3 = people.job.client("s3")
    key = f"tables/{SILVER}/fct_orders/data/2"
    version = s3.put_object(Bucket=LAKE, Key=key, Body=b"rows")["VersionId"]
    assert may(s3.delete_object, Bucket=LAKE, Key=key)
    assert not may(s3.delete_object, Bucket=LAKE, Key=key, VersionId=version)
    kept = people.owner.client("s3").get_object(Bucket=LAKE, Key=key, VersionId=version)
    assert kept["Body"].read() == b"rows"
    assert not may(s3.put_object, Bucket=LAKE, Key="landing/1.jsonl", Body=b"")
    assert not may(s3.put_object, Bucket=WORK, Key="app/current/job.py", Body=b"")
    assert not may(s3.delete_bucket_policy, Bucket=LAKE)
    assert may(s3.get_object, Bucket=WORK, Key="app/current/job.py")


def test_a_job_lists_tables_and_landing_files_only(people: People) -> None:
    s3 = people.job.client("s3")
    assert may(s3.list_objects_v2, Bucket=LAKE, Prefix="tables/icegate_lake_silver/")
    assert may(s3.list_objects_v2, Bucket=LAKE, Prefix="landing/")
    assert not may(s3.list_objects_v2, Bucket=LAKE)
    assert not may(s3.list_objects_v2, Bucket=LAKE, Prefix="private/")
    assert not may(s3.list_objects_v2, Bucket=WORK, Prefix="results/")


def test_a_job_has_the_lakes_databases_and_no_others(people: People) -> None:
    glue = people.job.client("glue")
    assert may(glue.update_table, DatabaseName=SILVER, TableInput=ORDERS)
    assert not may(glue.get_table, DatabaseName="finance", Name="salaries")
    assert not may(glue.delete_table, DatabaseName="finance", Name="salaries")
    for table, expected in {
        f"{SILVER}/fct_orders": "allowed",
        "icegate_lake/orders": "allowed",
        "finance/salaries": "implicitDeny",
        "icegate_lakeside/boats": "implicitDeny",
    }.items():
        said = decision(people, "job", "glue:UpdateTable", f"{GLUE}:table/{table}")
        assert (table, said) == (table, expected)
    assert not may(glue.create_database, DatabaseInput={"Name": "icegate_lake_new"})
    assert not may(glue.delete_database, Name=SILVER)


def test_what_iceberg_does_to_a_table_needs_no_other_right(people: People, tmp_path: Path) -> None:
    """PyIceberg's client for Glue, as a job; its files are on this disk."""
    people.owner.client("iam").put_user_policy(
        UserName="job", PolicyName="databases", PolicyDocument=json.dumps(DATABASES_AS_TABLES)
    )
    catalog = GlueCatalog("lake", client=people.job.client("glue"))
    rows = pa.table({"order_id": ["1", "2"]})
    name = (GOLD, "dim_days")
    made = catalog.create_table(name, rows.schema, location=(tmp_path / "days").as_uri())
    made.append(rows)
    catalog.load_table(name).delete("order_id = '1'")
    assert len(catalog.load_table(name).scan().to_arrow()) == 1
    assert name in catalog.list_tables(GOLD)
    catalog.drop_table(name)
    with pytest.raises(NoSuchTableError):
        catalog.load_table(name)


def test_a_release_needs_no_other_right(people: People, tmp_path: Path) -> None:
    """The gate and its locks, as a job, with all files in the lake's bucket."""
    places = {"home": tmp_path / "home", "warehouse": tmp_path, "bucket": f"s3://{LAKE}/tables"}
    lake = Lake.model_validate({**places, "catalog_type": "glue"})
    tables = (f"{SILVER}.gated_orders", f"{GOLD}.gated_totals")
    with as_user(people.job, tmp_path):
        check_catalog(lake)
        make(lake, *tables)
        for table in tables:
            add(lake, table, 1)
            add(lake, table, 2, build="aaaaaaaa")
        outcome = finish(lake, report(dict.fromkeys(tables, "pass")), request("aaaaaaaa"))
        assert sorted(outcome.published) == sorted(tables)
        assert [ids(lake, table, "release_1") for table in tables] == [[1, 2], [1, 2]]
        with pytest.raises(CatalogError, match="may not do that there") as error:
            make(lake, "finance_2.a")
        assert "deploy/aws/lake.yml" in error.value.fix
    with as_user(people.reader, tmp_path), pytest.raises(CatalogError, match="may not do that"):
        add(lake, tables[1], 3)


@contextmanager
def as_user(cloud: Cloud, folder: Path) -> Iterator[None]:
    """Have AWS's own variables lead there, as that user; the server's certificate is its own."""
    certificate = folder / "certificate.pem"
    port = int(cloud.url.rpartition(":")[2])
    certificate.write_text(ssl.get_server_certificate(("127.0.0.1", port)))
    key = cloud.session.get_credentials()
    with using(
        AWS_ENDPOINT_URL_S3=cloud.url,
        AWS_ENDPOINT_URL_GLUE=cloud.url,
        AWS_ACCESS_KEY_ID=key.access_key,
        AWS_SECRET_ACCESS_KEY=key.secret_key,
        AWS_REGION=REGION,
        AWS_DEFAULT_REGION=REGION,
        AWS_CA_BUNDLE=str(certificate),
        NO_PROXY="127.0.0.1",
        no_proxy="127.0.0.1",
    ):
        yield


def test_files_are_encrypted_by_the_key_or_refused(people: People) -> None:
    s3 = people.job.client("s3")
    key = {"Bucket": LAKE, "Key": f"tables/{SILVER}/fct_orders/data/3", "Body": b""}
    assert may(s3.put_object, **key)
    assert not may(s3.put_object, **key, ServerSideEncryption="AES256")


def test_without_tls_nobody_gets_anything(tmp_path: Path) -> None:
    with running(tmp_path, AUTH="true") as owner:
        s3 = deployed(owner).job.client("s3")
        key = f"tables/{SILVER}/fct_orders/data/1"
        assert not may(s3.put_object, Bucket=LAKE, Key=key, Body=b"")
        assert not may(s3.get_object, Bucket=LAKE, Key=key)
        assert not may(s3.list_objects_v2, Bucket=LAKE, Prefix="tables/")
