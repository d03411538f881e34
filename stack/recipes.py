"""All servers that `python -m stack up` can start, by name."""

from __future__ import annotations

from collections.abc import Mapping

from stack.connect_recipe import Connect
from stack.kafka_recipe import Kafka
from stack.postgres_recipe import Postgres
from stack.registry_recipe import Registry
from stack.server import Recipe

RECIPES: Mapping[str, Recipe] = {
    recipe.name: recipe for recipe in (Connect(), Kafka(), Postgres(), Registry())
}
