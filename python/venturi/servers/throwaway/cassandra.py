"""Apache Cassandra 5.0: one node, with the flags of Java and the settings of its own distribution."""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from venturi.common import temporary
from venturi.common.environment import own_address
from venturi.common.errors import UnreachableError
from venturi.servers.throwaway import cassandra_jars, network
from venturi.servers.throwaway.base import Setting, ThrowawayServer, by_venturi
from venturi.servers.throwaway.cassandra_jars import Cql, CqlError, quoted
from venturi.servers.throwaway.guarded import Guarded

_JAVA = 17
_BAD_CREDENTIALS = 0x0100
# The default account, which the server makes where it asks for passwords.
_DEFAULT = ("cassandra", "cassandra")

_OPTIONS = Path(__file__).with_name("jvm.options")
# One node has nobody to gossip with: it serves at once instead of after half a minute.
_ALONE = ("ring_delay_ms=100", "skip_wait_for_gossip_to_settle=0", "superuser_setup_delay_ms=0")

_DIRECTORIES = ("data_file_directories", "commitlog_directory", "hints_directory", "saved_caches_directory")
# A pattern with milliseconds after a comma stops logback 1.5 here: it takes the rest for an option.
_LOGBACK = """<configuration>
  <appender name="out" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%-5level %date %logger{0} - %msg%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="out"/></root>
</configuration>
"""


class Cassandra(ThrowawayServer):
    """One node for itself. Without a password everybody may do everything, as by Cassandra's default."""

    name = "cassandra"
    scheme = "cassandra"
    title = "Cassandra"
    scenario = "upsert-cassandra"
    taken = {  # noqa: RUF012 - a constant
        **{"native_transport_port": "--port", "rpc_address": "--host"},
        **dict.fromkeys(_DIRECTORIES, "--data"),
        **by_venturi("cluster_name", "listen_address", "seed_provider", "storage_port"),
    }
    durability = {"commitlog_sync": "periodic", "commitlog_sync_period": "10000ms"}  # noqa: RUF012
    ready_seconds = 180.0

    def __init__(
        self, *, cassandra_home: Path | None = None, java: Path | None = None, **choices: Any
    ) -> None:
        """`cassandra_home` names an unpacked distribution, `java` its program; see ThrowawayServer."""
        super().__init__(**choices)
        self._home = cassandra_home
        self._named_java = java
        self._java = ""

    @property
    def user(self) -> str | None:
        return "venturi" if self.password_env else None

    def find(self) -> str:
        self._java = cassandra_jars.find(_JAVA, self._named_java, "Cassandra")
        if self._home is not None:
            jars = str(cassandra_jars.installed(self._home))
        else:
            jars = str(cassandra_jars.cached() or f"its jars by {cassandra_jars.maven()}")
        return f"{self._java}, {jars}"

    def fetch(self) -> Path:
        """The directory of the jars, fetched where they are not here yet. Raises VenturiError."""
        self.find()
        found = cassandra_jars.cached()
        if found is not None:
            return found
        held = temporary.make(self.name)
        with held:
            guarded = Guarded(held.path, hold=[held.descriptor])
            try:
                return cassandra_jars.fetch(guarded, guarded.directory / "maven.log", self._note)
            finally:
                guarded.close()

    def settings(self) -> list[Setting]:
        megabytes = self._memory // 2**20
        batch = "a batch of 500 counters is over 50KiB, the default; a write may take 16MiB"
        ours = [
            Setting("batch_size_fail_threshold", "16MiB", batch),
            Setting("batch_size_warn_threshold", "16MiB", "no line in the log for every batch"),
            Setting("auto_snapshot", "false", "a dropped table leaves no copy on the disk"),
            Setting("num_tokens", "1", "one node, which starts sooner so"),
        ]
        if self.password_env is not None:
            ours.append(Setting("authenticator", "PasswordAuthenticator", "--password-env"))
        heap = Setting("-Xmx", f"{megabytes}m", "--memory: Java's heap, the same from the start (-Xms)")
        return [heap, *self._chosen(*ours)]

    def _initialise(self, data: Path) -> None:
        """Cassandra makes its directories by itself."""

    def _serve(self, data: Path) -> None:
        if self._home is not None:
            library = cassandra_jars.installed(self._home)
        else:
            library = cassandra_jars.cached() or cassandra_jars.fetch(self.guarded, self.log, self._note)
        directory = self.directory
        (directory / "tmp").mkdir()
        (directory / "logback.xml").write_text(_LOGBACK)
        (directory / "cassandra.yaml").write_text(self._yaml(data))
        flags = [f"@{_OPTIONS}", f"-Xms{self._memory // 2**20}m", f"-Xmx{self._memory // 2**20}m"]
        flags += [f"-javaagent:{agent}" for agent in sorted(library.glob("jamm-*.jar"))[:1]]
        # Wherever it is, the node keeps below one directory; libraries unpack themselves into another.
        properties = [
            f"cassandra.config=file://{directory}/cassandra.yaml",
            f"cassandra.storagedir={data}",
            f"cassandra.logdir={directory}",
            *(f"cassandra.{text}" for text in _ALONE),
        ]
        # In the background it closes its output before it listens, and what it says then is lost.
        properties.append("cassandra-foreground=yes")
        flags += [f"-D{text}" for text in (*properties, f"java.io.tmpdir={directory}/tmp")]
        flags += [f"-Djna.tmpdir={directory}/tmp", f"-Dlogback.configurationFile={directory}/logback.xml"]
        if ":" not in self._host:
            flags.append("-Djava.net.preferIPv4Stack=true")
        command = [self._java, *flags, "-cp", f"{library}/*", "org.apache.cassandra.service.CassandraDaemon"]
        self._run(command)

    def _yaml(self, data: Path) -> str:
        # YAML quotes as CQL does.
        port = network.free_port("127.0.0.1")
        lines = [
            "cluster_name: venturi",
            "partitioner: org.apache.cassandra.dht.Murmur3Partitioner",
            "endpoint_snitch: SimpleSnitch",
            "commitlog_sync: periodic",
            "commitlog_sync_period: 10000ms",
            f"data_file_directories: [{quoted(f'{data}/data')}]",
            f"commitlog_directory: {quoted(f'{data}/commitlog')}",
            f"hints_directory: {quoted(f'{data}/hints')}",
            f"saved_caches_directory: {quoted(f'{data}/saved_caches')}",
            f"cdc_raw_directory: {quoted(f'{data}/cdc_raw')}",
            "listen_address: 127.0.0.1",
            f"storage_port: {port}",
            "seed_provider:",
            "  - class_name: org.apache.cassandra.locator.SimpleSeedProvider",
            f"    parameters: [{{seeds: '127.0.0.1:{port}'}}]",
            "start_native_transport: true",
            f"native_transport_port: {self._port}",
            f"rpc_address: '{self._host}'",
        ]
        if network.reachable(self._host) != self._host:
            lines.append(f"broadcast_rpc_address: '{own_address() or '127.0.0.1'}'")
        chosen = [setting for setting in self.settings() if not setting.name.startswith("-")]
        fixed = {line.partition(":")[0] for line in lines} & {setting.name for setting in chosen}
        lines = [line for line in lines if line.partition(":")[0] not in fixed]
        return "\n".join([*lines, *(f"{setting.name}: {setting.used}" for setting in chosen)]) + "\n"

    def _answers(self) -> str | None:
        password = self.secret()
        try:
            if password is not None:
                self._give_account(password)
            with Cql(self._host, self._port, ("venturi", password or "")) as connection:
                connection.execute(
                    "CREATE KEYSPACE IF NOT EXISTS venturi WITH replication = "
                    "{'class': 'SimpleStrategy', 'replication_factor': 1}"
                )
                version = connection.execute("SELECT release_version FROM system.local")
        except CqlError as error:
            if error.code == _BAD_CREDENTIALS and not self._fresh:
                raise UnreachableError(
                    f"Cassandra did not let venturi in: {error}",
                    hint="data that were kept demand the password of their first start",
                ) from None
            return None  # not ready for this yet
        return f"Cassandra {version.decode()}" if version else "Cassandra"

    def _give_account(self, password: str) -> None:
        """Makes the account `venturi` at the first start, and shuts the default one."""
        try:
            with Cql(self._host, self._port, _DEFAULT) as connection:
                connection.execute(
                    f"CREATE ROLE IF NOT EXISTS venturi WITH PASSWORD = {quoted(password)} "
                    "AND LOGIN = true AND SUPERUSER = true"
                )
        except CqlError as error:
            if error.code != _BAD_CREDENTIALS:
                raise
            return
        with Cql(self._host, self._port, ("venturi", password)) as connection:
            shut = quoted(secrets.token_urlsafe(24))
            connection.execute(f"ALTER ROLE cassandra WITH PASSWORD = {shut} AND SUPERUSER = false")

    def _complaint(self, log: Sequence[str]) -> str:
        text = "\n".join(log)
        if found := re.search(
            r"^(# There is insufficient memory.*|Terminating due to .*Error.*)$", text, re.M
        ):
            return found[1].removeprefix("# ")
        if found := re.search(r"^Exception \(.*\) encountered during startup: (.*)", text, re.M):
            # Of a wrong value only the innermost exception says what is wrong, the outer one where.
            name = re.search(r"Cannot create property=(\w+)", text)
            causes = re.findall(
                r"^Caused by: [\w.]+(?:Exception|Error): (.*)", text.partition("\nERROR ")[0], re.M
            )
            return f"{name[1]}: {causes[-1]}" if name and causes else found[1].strip()
        # Said below a line that says no more than "Fatal configuration error".
        if found := re.search(r"^[\w.]+\.ConfigurationException: (.*)", text, re.M):
            return found[1].strip()
        errors = [line for line in log if line.startswith(("ERROR", "Error", "Exception"))]
        return (errors or list(log[-1:]))[0].strip()
