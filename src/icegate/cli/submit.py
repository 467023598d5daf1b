"""`icegate submit`: a build as a job of EMR, serverless or on a cluster, followed from here."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Annotated

import typer

from icegate.cli.common import Opened, ProfilesDir, ProjectDir, Target
from icegate.cli.output import note
from icegate.errors import ConfigError

if TYPE_CHECKING:
    from icegate.emr.follow import Runs
    from icegate.emr.submit import Call

LOOK_EVERY_S = 5.0
USAGE = "`icegate submit --target T -- dbt build --select …`; `icegate maintain` works as well"
PYTHON = "/usr/bin/python{version}"


ApplicationId = Annotated[
    str | None,
    typer.Option(envvar="ICEGATE_APPLICATION", help="Id of EMR Serverless' application."),
]
ClusterId = Annotated[
    str | None,
    typer.Option("--cluster", help="A cluster of EMR on EC2 instead: its id, or tag=value,…."),
]
Role = Annotated[
    str,
    typer.Option(
        envvar="ICEGATE_JOB_ROLE",
        help="ARN of the role that the job has; a cluster has one of its own.",
    ),
]
App = Annotated[
    str, typer.Option(envvar="ICEGATE_APP", help="Folder for what jobs bring: s3://…/app.")
]
Packages = Annotated[
    list[str] | None,
    typer.Option("--package", help="A package that models import; may be given again."),
]
PythonVersion = Annotated[
    str, typer.Option(help="Python of the job, as the release of EMR has it.")
]
PythonPath = Annotated[
    str | None, typer.Option(help="That Python.", show_default=PYTHON.format(version="3.11"))
]
Minutes = Annotated[int, typer.Option(min=5, help="A job that takes longer is stopped.")]
Conf = Annotated[
    list[str] | None,
    typer.Option("--conf", help="KEY=VALUE of Spark's, as spark-submit has it; may be repeated."),
]
OnlyUpload = Annotated[
    bool, typer.Option("--only-upload", help="Begin no job: for a schedule that does.")
]


def submit(
    words: Annotated[list[str], typer.Argument(metavar="-- COMMAND", help="dbt …, or icegate ….")],
    app: App,
    application: ApplicationId = None,
    cluster: ClusterId = None,
    role: Role = "",
    project_dir: ProjectDir = None,
    profiles_dir: ProfilesDir = None,
    target: Target = None,
    packages: Packages = None,
    python_version: PythonVersion = "3.11",
    python: PythonPath = None,
    conf: Conf = None,
    minutes: Minutes = 240,
    only_upload: OnlyUpload = False,
) -> None:
    """Run dbt as a job of EMR Serverless, or a step of a cluster: pack, send, wait.

    Its exit code is this one's. Ctrl-C cancels the job.
    """
    from icegate.emr import pack
    from icegate.emr.submit import Call, Packed, variables
    from icegate.profiles import find_profiles

    _check_bucket(app)
    at = Opened(project_dir, profiles_dir, target)
    command, profiles = _command(words, at), find_profiles(at.project, at.profiles_dir)
    given, runs = variables(at.written), _runs(application, cluster, role)
    of_job = pack.Python(python_version, runs.architecture)
    needed, project = pack.requirements(packages or [], of_job), at.project
    packed = Packed(pack.project_files(project, profiles), needed, of_job, app, note)
    folder = packed.send()
    if only_upload:
        return
    python = python or PYTHON.format(version=python_version)
    call = Call(folder, command, given, python, conf or [])
    raise typer.Exit(_follow(runs, " ".join(words[:2]), call, minutes))


def _runs(application: str | None, cluster: str | None, role: str) -> Runs:
    """Return what runs the job; raise ``ConfigError`` where that isn't said, or not enough."""
    if cluster:
        from icegate.emr.clusters import find_cluster
        from icegate.emr.steps import Steps

        return Steps(find_cluster(cluster))
    if not application or not role:
        raise ConfigError(
            "cannot submit a job",
            why="an application of EMR Serverless needs --application and --role",
            fix="name both, or ICEGATE_APPLICATION and ICEGATE_JOB_ROLE; or --cluster, for a step "
            "of a cluster",
        )
    from icegate.emr.serverless import Application

    return Application(application, role)


def _command(words: list[str], at: Opened) -> list[str]:
    """Return the job's words; raise ``ConfigError`` for those that can't be right there."""
    from icegate.dbt_process import options

    program, *args = words
    if program not in ("dbt", "icegate") or not args:
        raise ConfigError(f"cannot submit `{' '.join(words)}`", why="a job runs dbt", fix=USAGE)
    own = options(args)
    if own.project_dir or own.profiles_dir or own.target:
        raise ConfigError(
            f"cannot submit `{' '.join(words)}`",
            why="which project and target it is, the job is told from here",
            fix="give --project-dir, --profiles-dir and --target before `--`",
        )
    if not at.lake.is_submitted:
        raise ConfigError(
            f"cannot submit to the target {at.target!r}",
            why="it starts a Spark of its own; a job has one",
            fix="take a target with `master: submitted`, such as emr_serverless or emr_step",
        )
    where = ["--project-dir", "project", "--profiles-dir", "project", "--target", at.target]
    return [program, *args, *where]


def _follow(runs: Runs, name: str, call: Call, minutes: int) -> int:
    """Begin a job, print what it prints, and return its exit code; a signal cancels it."""
    from icegate.dbt_process import at_signals
    from icegate.emr.follow import Followed

    stopped: list[int] = []
    woken = threading.Event()

    def stop(number: int) -> None:
        if stopped:  # the job is being cancelled: who asks twice needn't wait for it
            raise SystemExit(128 + number)
        stopped.append(number)
        woken.set()

    at_signals(stop)
    run, cancelled = runs.start(name, call, minutes), False
    note(f"job: {run} of {runs.named}")
    followed = Followed(runs, run, _show, note)
    while not (job := followed.look()).has_ended:
        if stopped and not cancelled:
            runs.cancel(run)
            cancelled = True
        woken.wait(LOOK_EVERY_S)
        woken.clear()
    if stopped and job.state == "CANCELLED":
        return 128 + stopped[0]
    if not followed.is_whole:
        note("log: waiting for its last lines")
    for _ in range(int(runs.late_s / LOOK_EVERY_S)):
        if followed.is_whole or stopped:
            break
        woken.wait(LOOK_EVERY_S)
        followed.look()
    if job.state == "FAILED":
        followed.show_errors()
    if job.details:
        note(job.details)
    return followed.exit_code


def _check_bucket(app: str) -> None:
    if not app.startswith("s3://"):
        raise ConfigError(
            f"cannot send to {app!r}", why="it isn't in a bucket", fix="--app s3://BUCKET/app"
        )


def _show(line: str) -> None:
    print(line, flush=True)
