"""The real elementary, where it's installed: which of our macros it needs, its page, its alerts."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml
from conftest import ROOT, DbtProject, DbtRun, make_home

import edr
import packages
from icegate.dbt_process import DBT
from icegate.profiles import load_target
from icegate.session import start_session
from icegate.settings import Lake

MACROS = ROOT / "macros" / "elementary"
needs_it = pytest.mark.skipif(
    not packages.are_installed(ROOT), reason="the real elementary isn't installed: `dbt deps`"
)

ORDERS = {
    "name": "orders",
    "data_tests": [
        {"elementary.schema_changes": {"config": {"severity": "warn"}}},
        {"elementary.volume_anomalies": {"config": {"severity": "warn"}}},
    ],
    "columns": [
        {
            "name": "id",
            "data_tests": [
                {
                    "accepted_values": {
                        "arguments": {"values": [2]},
                        "config": {"severity": "warn"},
                    }
                }
            ],
        }
    ],
}
SCHEMA_TEST = "elementary_schema_changes_orders_"
KEPT_ROWS = "test_result_rows where test_type = 'dbt_test'"
NAMELESS = "elementary_test_results where lower(table_name) <> 'orders'"
# Each connection that leaves this machine is written down, and refused.
GUARD = """
import os, socket
real = socket.socket.connect
def connect(self, address):
    if self.family != socket.AF_UNIX and address[0] not in ("127.0.0.1", "localhost", "::1"):
        open(os.environ["T_LEFT"], "a").write(f"{address}\\n")
        raise OSError("refused")
    return real(self, address)
socket.socket.connect = connect
asked = socket.getaddrinfo
def getaddrinfo(host, *rest, **more):
    if host not in (None, "", "127.0.0.1", "localhost", "::1", socket.gethostname()):
        open(os.environ["T_LEFT"], "a").write(f"{host}\\n")
        raise OSError("refused")
    return asked(host, *rest, **more)
socket.getaddrinfo = getaddrinfo
"""


def test_the_macros_were_tried_with_the_locked_version() -> None:
    """Another one: run this file with it installed, drop what isn't needed, raise this."""
    assert packages.locked_versions(ROOT)["elementary"] == "0.25.1"


class Observed(DbtProject):
    """A small project with the real elementary and our macros for it."""

    changes = 0

    def prepare(self) -> None:
        ours = yaml.safe_load((ROOT / "dbt_project.yml").read_text())
        self.configure(
            **{"packages-install-path": str(ROOT / "dbt_packages")},
            models={"elementary": ours["models"]["elementary"] | {"+table_profile": None}},
            vars={name: ours["vars"][name] for name in VARS},
            **{"on-run-end": ours["on-run-end"]},
        )
        shutil.copy(ROOT / "packages.yml", self.folder)
        shutil.copytree(MACROS, self.folder / "macros")
        shutil.copytree(ROOT / "macros" / "iceberg", self.folder / "macros" / "iceberg")
        names = ROOT / "macros/overrides/generate_schema_name.sql"
        shutil.copy(names, self.folder / "macros")
        self.write_yaml("models/_models.yml", {"models": [ORDERS]})

    def change(self, *select: str) -> DbtRun:
        """Build after a change of the table's columns, and so of what the project is made of."""
        self.changes += 1
        sql = f"select 1 as id, 2 as column_{self.changes}"
        self.write("models/orders.sql", "{{ config(materialized='table') }}\n" + sql + "\n")
        return self.dbt("build", *select)

    def found(self, what: str) -> set[Path]:
        return set(self.lake.warehouse.glob(what))

    def count(self, query: str) -> int:
        return int(self.spark.sql(f"select count(*) from elementary.{query}").first()[0])

    def troubles(self) -> set[str]:
        """Build after a change, and return by macro what it is there to prevent, and happened."""
        kept, left, root = (
            "elementary/test_*__tmp_*/data/*",
            "**/dbt_*__tmp_*/data/*",
            "dbt_*__tmp_*",
        )
        before = {what: self.found(what) for what in (kept, left, root)}
        rows, snapshots = self.count(KEPT_ROWS), self.count("dbt_models.snapshots")
        nameless = self.count(NAMELESS)
        run = self.change("--select", "orders")
        # The new column isn't published yet: the test reads what the build has made.
        assert run.status[SCHEMA_TEST] == "warn", run.text
        happened = {
            "icegate__full_name_split": self.count(NAMELESS) > nameless,
            "icegate__get_clean_elementary_test_tables_queries": self.found(kept) > before[kept],
            "icegate__drop_relation": self.found(left) > before[left],
            "icegate__edr_make_intermediate_relation": self.found(root) > before[root],
            "materialization_test_icegate": self.count(KEPT_ROWS) == rows,
            "icegate__get_delete_and_insert_queries": (
                self.count("dbt_models.snapshots") > snapshots + 1
            ),
        }
        return {macro for macro, has_happened in happened.items() if has_happened}


VARS = ("disable_dbt_artifacts_autoupload", "query_max_size")
REPAIRS = (
    "icegate__full_name_split",
    "icegate__get_clean_elementary_test_tables_queries",
    "icegate__drop_relation",
    "icegate__edr_make_intermediate_relation",
    "materialization_test_icegate",
    "icegate__get_delete_and_insert_queries",
)


@pytest.fixture(scope="module")
def observed(tmp_path_factory: pytest.TempPathFactory, spark: Any) -> Observed:
    folder = tmp_path_factory.mktemp("observed")
    home = make_home(folder / "a home")
    conf = {"spark.sql.session.timeZone": "UTC"}
    lake = Lake(home=home, warehouse=home / "warehouse", ansi=True, spark_conf=conf)
    keys = {"schema": "main", "audits": True, "gate": True}
    project = Observed(folder / "a project", lake, start_session(lake), **keys)
    project.prepare()
    run = project.change()
    assert run.ok, run.text
    return project


@pytest.mark.long
@needs_it
def test_with_all_macros_there_is_no_trouble(observed: Observed) -> None:
    assert observed.troubles() == set()


@pytest.mark.long
@needs_it
@pytest.mark.parametrize("macro", REPAIRS)
def test_each_repair_is_still_needed(observed: Observed, macro: str) -> None:
    """Where this fails, elementary does it by itself: the macro can go."""
    file = observed.folder / "macros" / f"{macro}.sql"
    described = observed.folder / "macros" / "_elementary.yml"
    entries = yaml.safe_load(described.read_text())["macros"]
    text = file.read_text()
    file.unlink()
    others = [entry for entry in entries if entry["name"] != macro]
    observed.write_yaml("macros/_elementary.yml", {"macros": others})
    try:
        assert macro in observed.troubles()
    finally:
        file.write_text(text)
        observed.write_yaml("macros/_elementary.yml", {"macros": entries})


@pytest.mark.long
@needs_it
def test_two_builds_at_once(observed: Observed) -> None:
    """Each adds its run, and what the project is made of is there once."""
    for name in ("left", "right"):
        sql = "{{ config(materialized='table') }}\nselect 1 as id\n"
        observed.write(f"models/{name}.sql", sql)
    where = ["--project-dir", str(observed.folder), "--profiles-dir", str(observed.folder)]
    processes = []
    for name in ("left", "right"):
        aside = observed.folder / "aside" / name
        paths = ["--target-path", str(aside / "target"), "--log-path", str(aside / "logs")]
        command = [*DBT, "--quiet", "build", "--select", name, *where, *paths]
        processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
    for process in processes:
        said, _ = process.communicate(timeout=600)
        assert process.returncode == 0, said
    models = "from elementary.dbt_models where name in ('left', 'right')"
    assert observed.rows(f"select name, count(*) {models} group by 1 order by 1") == [
        ("left", 1),
        ("right", 1),
    ]
    runs = observed.rows("select distinct name from elementary.dbt_run_results")
    assert {("left",), ("right",)} <= {*runs}


@pytest.mark.long
@needs_it
def test_its_tables_are_compacted_once_they_have_many_files(observed: Observed) -> None:
    assert observed.dbt("build", "--select", "orders").ok  # one more than the first
    before = observed.count("dbt_invocations.files")
    assert before > 1
    project = yaml.safe_load((observed.folder / "dbt_project.yml").read_text())
    upload, _ = project["on-run-end"]
    for min_files, files in [(before + 3, before + 1), (before + 1, 1)]:
        compact = f"{{{{ maintain_elementary(min_files={min_files}) }}}}"
        observed.write_yaml("dbt_project.yml", {**project, "on-run-end": [upload, compact]})
        runs = observed.count("dbt_invocations")
        assert observed.dbt("build", "--select", "orders").ok
        assert observed.count("dbt_invocations.files") in (files, files + 1)
        assert observed.count("dbt_invocations") == runs + 1
    observed.write_yaml("dbt_project.yml", project)


@pytest.fixture
def webhook() -> Iterator[tuple[str, list[Any]]]:
    """A server that takes what is sent to Slack or Teams."""
    received: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"1")  # Teams' old webhooks say this, and Slack's may say anything

        def log_message(self, *_: object) -> None:
            """Stay quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/hook", received
    server.shutdown()
    server.server_close()


@pytest.fixture
def run_edr(
    observed: Observed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., int]:
    """`edr` where no connection may leave this machine; none is tried."""
    left = tmp_path / "left"
    left.touch()
    (tmp_path / "sitecustomize.py").write_text(GUARD)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("T_LEFT", str(left))
    _, target = load_target(observed.folder)
    (observed.folder / "dbt_packages").symlink_to(ROOT / "dbt_packages")

    def run(*args: str) -> int:
        code = edr.run_edr(observed.folder, target, *args)
        assert left.read_text() == ""
        return code

    yield run
    (observed.folder / "dbt_packages").unlink()


@pytest.mark.long
@needs_it
def test_the_page_has_the_tests(
    observed: Observed, run_edr: Callable[..., int], tmp_path: Path
) -> None:
    page = tmp_path / "elementary.html"
    assert run_edr("report", "--file-path", str(page), "--open-browser", "false") == 0
    assert page.stat().st_size > 1_000_000


@pytest.mark.long
@needs_it
@pytest.mark.parametrize(
    ("channel", "says"),
    [("SLACK_WEBHOOK", "*Test:* accepted_values"), ("TEAMS_WEBHOOK", "AdaptiveCard")],
)
def test_alerts_go_where_the_environment_says(
    observed: Observed,
    run_edr: Callable[..., int],
    webhook: tuple[str, list[Any]],
    monkeypatch: pytest.MonkeyPatch,
    channel: str,
    says: str,
) -> None:
    url, received = webhook
    assert observed.dbt("build", "--select", "orders").ok  # something new to tell
    monkeypatch.setenv(channel, url)
    assert run_edr("monitor") == 0
    told = json.dumps(received)
    assert says in told and "accepted_values" in told
    sent = len(received)
    assert run_edr("monitor") == 0
    assert len(received) == sent  # what was told isn't told again
