"""A PostgreSQL server that lives no longer than the process that started it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from stack.ports import host_and_port
from stack.processes.owned import OwnedServer
from stack.recipes.postgres_recipe import DATABASE, USER, Postgres


class PostgresServer(OwnedServer):
    """A PostgreSQL server of this process. `pause` keeps it from taking new sessions; open sessions go on.

    Attributes:
        dsn: a URL for libpq and its drivers, with the password.
        jdbc_url: a URL for Java, without user and password, which Java takes separately.
        host, port, user, password, database: the parts of the URL.
    """

    def __init__(
        self, *, port: int | None = None, data: Path | None = None, settings: Mapping[str, str] | None = None
    ) -> None:
        """Prepare a server without starting it. ``settings`` are those of ``postgresql.conf``.

        Raises:
            StackError: one of the kinds in ``stack/errors.py``.
        """
        super().__init__(Postgres(), port=port, data=data, settings=settings)
        self.dsn = self.address
        self.host, self.port = host_and_port(self.address)
        self.user, self.database = USER, DATABASE
        self.password = urlsplit(self.address).password or ""
        self.jdbc_url = f"jdbc:postgresql://{self.host}:{self.port}/{DATABASE}"
