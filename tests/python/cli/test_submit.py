"""`icegate submit`, before anything is sent: what is packed, and what can't be right."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from icegate.emr import job, pack, submit
from icegate.errors import ConfigError
from icegate.profiles import find_target

OPTIONS = (
    "--application",
    "00f1",
    "--role",
    "arn:aws:iam::1:role/jobs",
    "--app",
    "s3://work-bucket/app",
)
PYTHON = pack.Python("3.11", "ARM64")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    files = {
        "dbt_project.yml": "{name: shop, profile: shop}",
        "models/a.sql": "select 1",
        "dbt_packages/p/macros/m.sql": "",
        ".env": "SECRET=1",
        ".git/config": "",
        "target/manifest.json": "{}",
        "logs/dbt.log": "",
        "models/logs/events.sql": "select 2",
        ".dbtignore": "",
        "venv/pyvenv.cfg": "",
        "venv/lib/big.py": "",
        "models/__pycache__/a.pyc": "",
        "elsewhere/profiles.yml": """
            shop:
              target: job
              outputs:
                job: {type: icegate, schema: "{{ env_var('SCHEMA', 'x') }}", master: submitted,
                      warehouse: "s3://lake-bucket/{{ env_var( 'FOLDER') }}", catalog_type: glue}
                other: {type: icegate, schema: '{{ env_var("OTHER") }}'}
                secret: {type: icegate, schema: "{{ env_var('DBT_ENV_SECRET_S') }}"}
        """,
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_a_project_is_packed_without_what_is_hidden_or_made(project: Path, tmp_path: Path) -> None:
    files = pack.project_files(project, project / "elsewhere" / "profiles.yml")
    assert {*files} == {
        *("dbt_project.yml", "models/a.sql", "dbt_packages/p/macros/m.sql", "profiles.yml"),
        *("elsewhere/profiles.yml", "models/logs/events.sql", ".dbtignore"),
    }
    first, again = tmp_path / "1.tar.gz", tmp_path / "2.tar.gz"
    for path in (first, again):
        pack.write_archive(files, path)
        (project / "models" / "a.sql").touch()
    assert first.read_bytes() == again.read_bytes()
    with tarfile.open(first) as archive:
        assert {*archive.getnames()} == {*files}
    was = pack.digest(files)
    (project / "models" / "a.sql").write_text("select 2")
    assert pack.digest(files) != was


def test_packages_that_are_named_have_to_be_there(project: Path) -> None:
    (project / "packages.yml").write_text("packages: []")
    assert pack.project_files(project, project / "elsewhere" / "profiles.yml")
    (project / "dbt_packages").rename(project / "target" / "dbt_packages")
    with pytest.raises(ConfigError, match="dbt deps"):
        pack.project_files(project, project / "elsewhere" / "profiles.yml")


def test_an_environment_has_what_icegate_needs_but_no_spark() -> None:
    needed = pack.requirements(["hypothesis"], PYTHON)
    names = {each.partition("==")[0].partition(" @ ")[0].lower() for each in needed}
    assert {"icegate", "dbt-core", "dbt-spark", "pyiceberg", "boto3", "hypothesis"} <= names
    assert not names & {"pyspark", "py4j", "pytest"}
    assert all("==" in each or " @ " in each for each in needed), needed
    with pytest.raises(ConfigError, match="pip install no-such-thing"):
        pack.requirements(["no-such-thing"], PYTHON)


def test_an_environment_is_for_the_jobs_machine(tmp_path: Path) -> None:
    pack.install(["numpy==2.2.6"], PYTHON, tmp_path / "environment")
    built = [path.name for path in (tmp_path / "environment").rglob("*.so")]
    assert "mtrand.cpython-311-aarch64-linux-gnu.so" in built


def test_variables_of_the_target_go_with_the_job(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def target(name: str) -> dict[str, Any]:
        return find_target(project, project / "elsewhere", name)[1]

    monkeypatch.setenv("FOLDER", "tables")
    monkeypatch.setenv("OTHER", "no")
    assert submit.variables(target("job")) == {"FOLDER": "tables"}
    assert submit.variables(target("other")) == {"OTHER": "no"}
    monkeypatch.setenv("SCHEMA", "my lake")
    with pytest.raises(ConfigError, match="cannot give SCHEMA to a job"):
        submit.variables(target("job"))
    monkeypatch.setenv("DBT_ENV_SECRET_S", "hush")
    with pytest.raises(ConfigError, match="give --role the right") as told:
        submit.variables(target("secret"))
    assert "hush" not in str(told.value)
    for app, conf in (("s3://b/my app", "a=b"), ("s3://b/app", "spark.x=a b"), ("s3://b/a", "x")):
        with pytest.raises(ConfigError, match="cannot give"):
            submit.spark_submit(
                submit.Call(app, ["dbt", "build"], {}, "/usr/bin/python3.11", [conf])
            )


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--target", "job", "--", "rm", "-rf"], "a job runs dbt"),
        (["--target", "job", "--", "dbt"], "a job runs dbt"),
        (["--target", "job", "--", "dbt", "build", "-t", "x"], "before `--`"),
        (["--target", "other", "--", "dbt", "build"], "starts a Spark of its own"),
        (["--target", "job", "--app", "/tmp/app", "--", "dbt", "build"], "isn't in a bucket"),
        (["--target", "none", "--", "dbt", "build"], "cannot find target 'none'"),
    ],
)
def test_what_cannot_be_right_is_said_first(project: Path, words: list[str], why: str) -> None:
    where = ["--project-dir", str(project), "--profiles-dir", str(project / "elsewhere")]
    command = [sys.executable, "-m", "icegate.cli.main", "submit", *where, *OPTIONS, *words]
    variables = {"FOLDER": "tables", "OTHER": "x", "PATH": "/usr/bin:/bin", "HOME": str(project)}
    ran = subprocess.run(command, env=variables, capture_output=True, text=True)
    assert ran.returncode == 2 and why in ran.stderr and "Traceback" not in ran.stderr


def test_dbt_build_meets_other_writers() -> None:
    where = ["--project-dir", "project", "--profiles-dir", "project", "--target", "t"]
    (build,) = job.commands("dbt", ["build", "-s", "a", *where])
    assert "icegate.cli.main" in build and build[-9:-6] == ["build", "-s", "a"]
    (test,) = job.commands("dbt", ["test", *where])
    assert "icegate.cli.main" not in test
    parse, maintain = job.commands("icegate", ["maintain", *where])
    assert parse[-4:] == ["parse", "--project-dir=project", "--profiles-dir=project", "--target=t"]
    assert "icegate.cli.main" in maintain and maintain[-7:] == ["maintain", *where]
