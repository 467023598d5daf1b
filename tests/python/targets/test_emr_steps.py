"""`icegate submit --cluster`: builds as steps, run here by the words that a cluster is given."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from environments import environment

from targets import emr_cluster
from targets.emr_release import EMR_8, RELEASES, Release
from targets.machine import ICEGATE, ROWS, Machine, machine
from targets.s3_server import using

pytestmark = [pytest.mark.long, pytest.mark.targets]

VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"


@pytest.fixture(scope="module")
def at(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    folder = tmp_path_factory.mktemp("target")
    with machine("glue, s3", folder) as made:
        assert made.objects is not None
        emr = emr_cluster.Emr(folder / "steps", on_node(made, folder / "conf"))
        emr.clusters[emr_cluster.ID]["LogUri"] = f"s3n://{made.objects.bucket}/logs/"
        with emr_cluster.serving(emr) as url, using(AWS_ENDPOINT_URL_EMR=url):
            made.environ["AWS_ENDPOINT_URL_EMR"] = url
            made.environ["ICEGATE_APP"] = f"s3://{made.objects.bucket}/app"
            made.retarget(master="submitted", memory=None, home=None)
            made.emr = emr
            yield made


def on_node(at: Machine, conf: Path, release: Release = EMR_8) -> dict[str, str]:
    """Return what a step finds on a primary node: Spark of the release, its conf, AWS's own CLI."""
    spark = release.home
    aws = environment("awscli", "awscli==1.46.3\n")
    assert at.objects is not None
    own = {"spark.master": "local[1]", "spark.jars": release.jars}
    of_cluster = emr_cluster.defaults(f"s3://{at.objects.bucket}/a warehouse") | own
    conf.mkdir()
    (conf / "spark-defaults.conf").write_text("".join(f"{k} {v}\n" for k, v in of_cluster.items()))
    kept = {k: v for k, v in at.environ.items() if k.startswith(("JAVA_HOME", "AWS_"))}
    path = os.pathsep.join([str(spark / "bin"), str(aws / "bin"), os.environ["PATH"]])
    own = {"HOME": str(conf), "SPARK_HOME": str(spark), "SPARK_CONF_DIR": str(conf)}
    return kept | own | {"PATH": path}


def submit(*words: str) -> list[str]:
    # The Python without any package of ours: what a job has, it was given.
    python = Path(sys.base_prefix) / "bin" / f"python{VERSION}"
    options = ["--cluster", "project=shop", "--python-version", VERSION, "--python", str(python)]
    return ["submit", *options, "--", *words]


def test_days_of_steps(at: Machine) -> None:
    said = at.icegate(*submit("dbt", "build"))
    assert "job: s-0 of cluster j-" in said and "job: success" in said
    assert "release 1: 6 tables published" in said and "Running with dbt" in said
    assert at.rows("scored") == [{"id": 1, "score": 2.5}, {"id": 2, "score": 3.5}]
    at.land(f"{ROWS}3,C-1003,\n")
    said = at.icegate(*submit("dbt", "build", "--select", "orders+", "landed"), code=1)
    assert "not_null_orders_amount" in said and len(at.rows("orders")) == 2
    assert "job: failed" in said and "it failed" in said
    said = at.icegate(*submit("dbt", "ls", "--no-such-option"), code=2)
    assert "No such option" in said and "icegate: exit code 2" in said


def test_a_step_on_emr_7(at: Machine, tmp_path: Path) -> None:
    node, at.emr.environ = at.emr.environ, on_node(at, tmp_path / "conf", RELEASES["emr-7"])
    at.land(ROWS.replace("7", "8"))
    said = at.icegate(*submit("dbt", "build", "--exclude", "past"))
    at.emr.environ = node
    assert "job: success" in said and at.rows("scored")[1] == {"id": 2, "score": 4.0}


def test_ctrl_c_ends_the_step_and_its_spark(at: Machine) -> None:
    before = len(at.emr.steps)
    process = at.begin(*ICEGATE, *submit("dbt", "build"))
    while len(at.emr.steps) == before or b"Running with dbt" not in out(at):
        time.sleep(0.2)
    os.kill(process.pid, signal.SIGINT)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGINT, said
    assert "job: cancelled" in said
    begun = time.monotonic()
    while lives(at.emr.steps[-1].process.pid):
        assert time.monotonic() < begun + 10, "Spark goes on"
        time.sleep(0.1)


def lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def out(at: Machine) -> bytes:
    return at.emr.steps[-1].files["stdout"].read_bytes()


def test_a_python_that_the_release_does_not_have(at: Machine) -> None:
    words = submit("dbt", "build")
    words[words.index("--python") + 1] = "/usr/bin/python2.9"
    said = at.icegate(*words, code=1)
    assert 'Cannot run program "/usr/bin/python2.9"' in said and "job: failed" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--cluster", "j-NONE"], "cannot find the cluster j-NONE"),
        ([], "needs --application and --role"),
    ],
)
def test_what_is_wrong_is_said(at: Machine, words: list[str], said: str) -> None:
    told = at.begin(*ICEGATE, "submit", *words, "--", "dbt", "build")
    assert said in told.communicate()[0] and told.returncode
