"""How a stream shows a Kafka who it is: named profiles in `profiles/kafka.yml`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from icegate.errors import ConfigError, did_you_mean
from icegate.profiles import read_keys, read_rendered

FILE = "profiles/kafka.yml"
MSK_IAM = "software.amazon.msk:aws-msk-iam-auth:2.3.9"


class _Profile(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    jars: tuple[str, ...] = ()

    def options(self, folder: Path) -> dict[str, str]:
        """Return options of Kafka's client; files count from ``folder``."""
        raise NotImplementedError


class Plaintext(_Profile):
    """No encryption and no name: a broker on this machine."""

    type: Literal["plaintext"]

    def options(self, folder: Path) -> dict[str, str]:
        return {"security.protocol": "PLAINTEXT"}


class Scram(_Profile):
    """A user and a password that is never sent itself; over TLS unless ``tls`` is false."""

    type: Literal["scram"]
    username: str = Field(min_length=1)
    password: str = Field(min_length=1)
    mechanism: Literal["SCRAM-SHA-256", "SCRAM-SHA-512"] = "SCRAM-SHA-512"
    tls: bool = True
    ca: str | None = None

    def options(self, folder: Path) -> dict[str, str]:
        module = "org.apache.kafka.common.security.scram.ScramLoginModule"
        user, password = (_in_jaas(text) for text in (self.username, self.password))
        return {
            "security.protocol": "SASL_SSL" if self.tls else "SASL_PLAINTEXT",
            "sasl.mechanism": self.mechanism,
            "sasl.jaas.config": f"{module} required username={user} password={password};",
            **_trusted(folder, self.ca),
        }


class Mtls(_Profile):
    """A certificate of the client's own; all files are PEM, the key is PKCS #8."""

    type: Literal["mtls"]
    certificate: str
    key: str
    key_password: str | None = None
    ca: str | None = None

    def options(self, folder: Path) -> dict[str, str]:
        password = {"ssl.key.password": self.key_password} if self.key_password else {}
        return {
            "security.protocol": "SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": _read(folder, self.certificate),
            "ssl.keystore.key": _read(folder, self.key),
            **password,
            **_trusted(folder, self.ca),
        }


class MskIam(_Profile):
    """Amazon MSK by the rights of the machine's or the job's own role."""

    type: Literal["msk_iam"]
    jars: tuple[str, ...] = (MSK_IAM,)

    def options(self, folder: Path) -> dict[str, str]:
        iam = "software.amazon.msk.auth.iam.IAM"
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "AWS_MSK_IAM",
            "sasl.jaas.config": f"{iam}LoginModule required;",
            "sasl.client.callback.handler.class": f"{iam}ClientCallbackHandler",
        }


Profile = Annotated[Plaintext | Scram | Mtls | MskIam, Field(discriminator="type")]


def load_profile(project: Path, name: str) -> Plaintext | Scram | Mtls | MskIam:
    """Read a profile by its name; ``plaintext`` needs no file. Raises ``ConfigError``.

    Variables of other profiles needn't be set.
    """
    path = project / FILE
    if name == "plaintext" and not path.is_file():
        return Plaintext(type="plaintext")
    known = read_keys(path, "Kafka profiles")
    if name not in known:
        raise ConfigError(
            f"cannot find the Kafka profile {name!r}",
            why=f"{FILE} has: {', '.join(known)}",
            fix=did_you_mean(name, known, "name one of these as `auth`"),
        )
    given: Any = read_rendered(path, "Kafka profiles", name, typed=False)
    try:
        found: Plaintext | Scram | Mtls | MskIam = TypeAdapter(Profile).validate_python(given)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"][1:])
        # Without the value: it may be a password.
        why = f"{place}: {first['msg']}" if place else first["msg"]
        what = f"cannot use the Kafka profile {name!r}"
        raise ConfigError(what, why=why, fix=f"correct it in {FILE}; docs/streams.md") from error
    return found


def _in_jaas(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _trusted(folder: Path, ca: str | None) -> dict[str, str]:
    if ca is None:
        return {}
    return {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": _read(folder, ca)}


def _read(folder: Path, file: str) -> str:
    path = folder / file
    try:
        return path.read_text()
    except OSError as error:
        raise ConfigError(
            f"cannot read {path}", why=str(error.strerror), fix=f"correct its path in {FILE}"
        ) from error
