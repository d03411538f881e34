"""A schema registry that lives no longer than the process that started it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from stack.processes.owned import OwnedServer
from stack.recipes.registry_recipe import CONFLUENT_API, NATIVE_API, ApicurioRecipe


class SchemaRegistry(OwnedServer):
    """A schema registry of this process, with the API of Confluent's registry.

    Attributes:
        url: the URL for clients of Confluent's schema registry; the same after every start.
        native_url: the URL for Apicurio's own clients of its API version 2, such as its Connect converter.
    """

    def __init__(
        self, *, port: int | None = None, data: Path | None = None, settings: Mapping[str, str] | None = None
    ) -> None:
        """Prepare a registry without starting it; ``settings`` are Apicurio's or Quarkus' properties.

        Raises:
            StackError: one of the kinds in ``stack/errors.py``.
        """
        super().__init__(ApicurioRecipe(), port=port, data=data, settings=settings)
        self.url = self.address
        self.native_url = self.address.removesuffix(CONFLUENT_API) + NATIVE_API
