"""Build and run deploy/Dockerfile without Docker: its steps in root folders of their own.

A small Debian of debootstrap's stands for the base image, and a stage is an overlay over it. Each
step, and each container, has mounts and processes of its own, so that nothing outlives it or
reaches this machine; a container has no network and no root that can be written, and its first
process is number 1.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from conftest import ROOT

from deploy.dockerfile import BASE_ENV, Stage, Step, context, expand, pairs, read_dockerfile, words

# How this machine reaches package registries; Docker passes proxies on as well.
NETWORK = re.compile(r"pip_.*|.*_proxy|ssl_cert_file|.*ca_bundle", re.IGNORECASE)
CERTIFICATES = Path("/usr/local/share/ca-certificates")
HOST = "container"
MIRROR = "http://deb.debian.org/debian"
ISOLATED = ("unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child")
STOP_S = 10  # what `docker stop` waits before it kills


@dataclass
class Image:
    """The folders of a stage, the newest first, and what its steps said of a container."""

    layers: list[Path]
    env: dict[str, str] = field(default_factory=lambda: dict(BASE_ENV))
    args: dict[str, str] = field(default_factory=dict)
    workdir: str = "/"
    user: str = "0:0"
    volumes: list[str] = field(default_factory=list)
    entrypoint: list[str] = field(default_factory=list)

    @property
    def files(self) -> Path:
        """What this stage itself added to its base."""
        return self.layers[0]

    def command(self, args: list[str], scratch: Path, mounts: dict[str, Path]) -> list[str]:
        """Return what runs ``args`` as root in this stage, which keeps what they write."""
        return [*ISOLATED, "sh", "-euc", self._script(args, scratch, mounts, "0:0", self.env, "")]

    def container(self, args: list[str], folder: Path, mounts: dict[str, Path]) -> list[str]:
        """Return what runs the entrypoint with ``args``, as `docker run --read-only` would."""
        scratch = folder / f"scratch-{time.monotonic_ns()}"
        env = self.env | {"TZ": "UTC"}
        closed = "ip link set lo up; mount -o remount,ro,bind {root}"
        script = self._script(
            [*self.entrypoint, *args], scratch, mounts, self.user, env, closed, self.workdir
        )
        return [*ISOLATED, "--net", "sh", "-euc", script]

    def _script(
        self,
        args: list[str],
        scratch: Path,
        mounts: dict[str, Path],
        user: str,
        env: dict[str, str],
        closed: str,
        workdir: str | None = None,
    ) -> str:
        root, work, tmp, upper = (scratch / name for name in ("root", "work", "tmp", "upper"))
        for each in (root, work, tmp, upper):
            each.mkdir(parents=True, exist_ok=True)
        tmp.chmod(0o1777)
        lower = self.layers if closed else self.layers[1:]
        options = f"lowerdir={':'.join(map(str, lower))},workdir={work}"
        options += f",upperdir={upper if closed else self.files}"
        bound = {"/dev": Path("/dev"), "/tmp": tmp, **mounts}
        lines = [f"hostname {HOST}", f"mount -t overlay overlay -o {shlex.quote(options)} {root}"]
        lines += [f"mkdir -p {root}{inside}" for inside in bound]
        if closed:
            lines.append(closed.format(root=root))
        lines += [f"mount --rbind {outside} {root}{inside}" for inside, outside in bound.items()]
        lines.append(f"mount -t proc proc {root}/proc")
        entered = ["chroot", f"--userspec={user}", "--groups=", str(root), "env", "-i"]
        entered += [f"--chdir={workdir or self.workdir}", *(f"{k}={v}" for k, v in env.items())]
        return "\n".join([*lines, f"exec {shlex.join([*entered, *args])}"])


def make_base(folder: Path) -> Path:
    """Make what stands for python:3.11-slim-bookworm: Debian 12, Python with pip, no compiler."""
    tools = folder.with_name("debootstrap")
    tools.mkdir(parents=True)
    tools.chmod(0o777)  # apt downloads as a user of its own
    _quietly(["apt-get", "download", "debootstrap"], tools)
    _quietly(["sh", "-c", "dpkg -x debootstrap_*.deb ."], tools)
    packages = "--include=python3,python3-pip,python3-venv,ca-certificates"
    command = [str(tools / "usr/sbin/debootstrap"), "--variant=minbase", packages, "bookworm"]
    environ = os.environ | {"DEBOOTSTRAP_DIR": str(tools / "usr/share/debootstrap")}
    _quietly([*command, str(folder), MIRROR], tools, environ)
    (folder / "usr/local/bin/python").symlink_to("/usr/bin/python3")
    if CERTIFICATES.is_dir():  # a company's proxy has its own
        shutil.copytree(CERTIFICATES, folder / CERTIFICATES.relative_to("/"), dirs_exist_ok=True)
    _quietly(["chroot", str(folder), "update-ca-certificates"], tools)
    # Docker gives a container a name and writes it here.
    (folder / "etc/hosts").write_text(f"127.0.0.1 localhost {HOST}\n")
    security = f"deb {MIRROR}-security bookworm-security main\n"
    (folder / "etc/apt/sources.list.d/security.list").write_text(security)
    return folder


def _quietly(command: list[str], folder: Path, environ: Mapping[str, str] = os.environ) -> None:
    done = subprocess.run(
        command, cwd=folder, env=dict(environ), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"


class Builder:
    """Runs the steps of all stages below ``folder``."""

    def __init__(self, folder: Path, build_args: dict[str, str]) -> None:
        self.folder, self.build_args = folder, build_args
        self.base = make_base(folder / "base")
        self.stages: dict[str, Image] = {}
        self.defaults: dict[str, str] = {}
        self.sent = folder / "context"
        for path in context(ROOT):
            goal = self.sent / path
            goal.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / path, goal, follow_symlinks=False)

    def build(self) -> Image:
        """Return the last stage, when all steps of all of them have run."""
        before, stages = read_dockerfile(ROOT / "deploy" / "Dockerfile")
        self.defaults = dict(step.text.split("=", 1) for step in before)
        for stage in stages:
            self.stages[stage.name] = self._stage(stage)
        return self.stages[stages[-1].name]

    def _stage(self, stage: Stage) -> Image:
        upper = self.folder / f"stage-{stage.name}"
        upper.mkdir(parents=True)
        if stage.base in self.stages:
            base = self.stages[stage.base]
            image = Image([upper, *base.layers], dict(base.env))
        else:
            image = Image([upper, self.base])
        for step in stage.steps:
            self._step(image, step)
        return image

    def _step(self, image: Image, step: Step) -> None:
        known = image.env | image.args
        if step.name == "RUN":
            self._run(image, step.text, _caches(step))
        elif step.name == "ENV":
            image.env |= pairs(step, known)
        elif step.name == "ARG":
            name, _, default = step.text.partition("=")
            image.args[name] = self.build_args.get(name, default or self.defaults.get(name, ""))
        elif step.name == "WORKDIR":
            image.workdir = expand(step.text, known)
            _inside(image, image.workdir).mkdir(parents=True, exist_ok=True)
        elif step.name == "COPY":
            self._copy(image, step)
        elif step.name == "USER":
            image.user = step.text
        elif step.name == "VOLUME":
            image.volumes += words(step)
        elif step.name == "ENTRYPOINT":
            image.entrypoint = words(step)
        else:
            assert step.name in ("CMD", "HEALTHCHECK"), f"unknown step {step.name}"

    def _run(self, image: Image, text: str, caches: dict[str, Path]) -> None:
        scratch = self.folder / f"step-{time.monotonic_ns()}"
        network = {name: text for name, text in os.environ.items() if NETWORK.fullmatch(name)}
        env = {"HOME": "/root", **network, **image.args, **image.env}
        as_built = Image(image.layers, env, workdir=image.workdir)
        command = as_built.command(["sh", "-c", text], scratch, caches)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{text}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
        shutil.rmtree(scratch)

    def _copy(self, image: Image, step: Step) -> None:
        *sources, goal = words(step)
        origin = self.stages[step.options["from"]].files if "from" in step.options else self.sent
        target = _inside(image, goal)
        for source in sources:
            found = origin / source.lstrip("/")
            # Docker copies what is in a folder, and a file into one where the goal ends with /.
            named = target / found.name if found.is_file() and goal.endswith("/") else target
            named.parent.mkdir(parents=True, exist_ok=True)
            keep = "--preserve=mode,timestamps,links"
            # Without -T a folder that is there would get the other one inside of it.
            subprocess.run(["cp", "-RT", keep, found, named], check=True)
            if mode := step.options.get("chmod"):
                named.chmod(int(mode, 8))


def _inside(image: Image, path: str) -> Path:
    return image.files / (Path(image.workdir) / path).relative_to("/")


def _caches(step: Step) -> dict[str, Path]:
    """Return what a step's cache mounts are here: pip's cache of this user."""
    if "mount" not in step.options:
        return {}
    given = dict(word.split("=") for word in step.options["mount"].split(","))
    assert given == {"type": "cache", "target": "/var/cache/pip"}
    cache = Path.home() / ".cache" / "pip"
    cache.mkdir(parents=True, exist_ok=True)
    return {given["target"]: cache}


def stop(container: subprocess.Popen[str]) -> float:
    """Send the container's first process SIGTERM, as `docker stop` does; return the seconds."""
    children = Path(f"/proc/{container.pid}/task/{container.pid}/children").read_text().split()
    began = time.monotonic()
    os.kill(int(children[0]), signal.SIGTERM)
    try:
        container.wait(STOP_S)
    finally:
        container.kill()
    return time.monotonic() - began
