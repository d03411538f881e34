"""All servers that `python -m stack up` can start, by name."""

from __future__ import annotations

from collections.abc import Mapping

from stack.processes.server import Recipe
from stack.recipes.connect_recipe import Connect
from stack.recipes.kafka_recipe import Kafka
from stack.recipes.postgres_recipe import Postgres
from stack.recipes.registry_recipe import ApicurioRecipe
from stack.recipes.spark_recipe import SparkMaster, SparkWorker

RECIPES: Mapping[str, Recipe] = {
    recipe.name: recipe
    for recipe in (Connect(), Kafka(), Postgres(), ApicurioRecipe(), SparkMaster(), SparkWorker())
}
