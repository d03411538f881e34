"""Runs a script of this package in an older checkout, whose modules stand in other places.

    python .../tests/stored_state/in_old_tree.py . write DIRECTORY     (in the older checkout)

The scripts are written against this tree. `MOVED` says where a248221 has the modules that they import.
"""

from __future__ import annotations

import importlib
import os
import runpy
import sys
from operator import attrgetter
from pathlib import Path
from typing import Final

#: Where a module is now, and where a248221 has it. A package that is new stands for the one before it.
MOVED: Final = {
    "sim.log": "sim",
    "sim.log.history": "sim.history",
    "tidegate.changefeed.definition": "tidegate.changefeed",
    "tidegate.changefeed.definition.feed": "tidegate.changefeed.feed",
    "tidegate.changefeed.definition.options": "tidegate.changefeed.options",
    "tidegate.changefeed.encoding": "tidegate.changefeed",
    "tidegate.changefeed.encoding.confluent": "tidegate.changefeed.confluent",
    "tidegate.changefeed.lifecycle": "tidegate.changefeed",
    "tidegate.changefeed.lifecycle.control": "tidegate.changefeed.control",
    "tidegate.changefeed.lifecycle.job_records": "tidegate.changefeed.job_records",
    "tidegate.changefeed.lifecycle.jobs": "tidegate.changefeed.jobs",
    "tidegate.changefeed.lifecycle.registration": "tidegate.changefeed.registration",
    "tidegate.client.kafka": "tidegate.client",
    "tidegate.client.kafka.connection": "tidegate.client.connection",
    "tidegate.client.kafka.topics": "tidegate.client.topics",
    "tidegate.processor.push_policy": "tidegate.processor.pushes",
    "tidegate.spark": "pipeline",
    "tidegate.spark.changefeed": "pipeline",
    "tidegate.spark.changefeed.batch_driver": "pipeline.batch_driver",
    "tidegate.spark.changefeed.changefeed_query": "pipeline.changefeed_query",
    "tidegate.spark.changefeed.ledger": "pipeline.ledger",
    "tidegate.spark.changefeed.partition_round": "pipeline.partition_round",
    "tidegate.spark.changefeed.query": "pipeline.partition_round",
    "tidegate.spark.changefeed.rounds": "pipeline.rounds",
    "tidegate.spark.changefeed.row_producer": "pipeline.row_producer",
    "tidegate.spark.changefeed.row_sinks": "pipeline.row_sinks",
    "tidegate.spark.changefeed.task": "pipeline",
    "tidegate.spark.changefeed.task.answers": "pipeline.answers",
    "tidegate.spark.changefeed.task.log_records": "pipeline.partition_round",
    "tidegate.spark.changefeed.task.partition_task": "pipeline.partition_round",
    "tidegate.spark.changefeed.task.round_state": "pipeline.partition_round",
    "tidegate.worker": "app",
    "tidegate.worker.process": "app",
    "tidegate.worker.process.ending": "app.ending",
    "tidegate.worker.state": "tables",
    "tidegate.worker.state.store": "tables.store",
}
#: What a248221 calls otherwise, by the module that has it.
RENAMED: Final = {
    "sim.log.history": {"HistoryVersion": "Version"},
    "tidegate.changefeed.encoding.confluent": {"SubjectSchema": "Schema"},
}
#: Attributes that a248221 calls otherwise, by the module and the class that have them.
RENAMED_ATTRIBUTES: Final = {
    "tidegate.processor.status": {"PartitionStatus": {"with_gaps": "lagging"}},
}
_TESTS: Final = Path(__file__).resolve().parents[1]


def main(checkout: Path, script: str, arguments: list[str]) -> None:
    """Have the code of ``checkout`` run a script of this package.

    The order of sets of texts, which Python draws for each process, is made the same each time.
    """
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, *sys.argv])
    sys.path[0] = str(checkout)
    for place, before in MOVED.items():
        sys.modules[place] = module = importlib.import_module(before)
        package, _, name = place.rpartition(".")
        if package in sys.modules:
            setattr(sys.modules[package], name, module)
        for now, then in RENAMED.get(place, {}).items():
            setattr(module, now, getattr(module, then))
    for place, classes in RENAMED_ATTRIBUTES.items():
        for name, attributes in classes.items():
            for now, then in attributes.items():
                setattr(getattr(importlib.import_module(place), name), now, property(attrgetter(then)))
    store = sys.modules["tidegate.worker.state.store"]
    store.rocks_stores = lambda _, stores=store.rocks_stores: stores()  # type: ignore[attr-defined]
    for package, folder in (("tests", _TESTS), ("tests.unit", _TESTS / "unit")):
        importlib.import_module(package).__path__.append(str(folder))
    sys.argv = [script, *arguments]
    runpy.run_module(f"tests.stored_state.{script}", run_name="__main__")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), sys.argv[2], sys.argv[3:])
