"""Tests are found from their module: a file of its name, in the folder that mirrors its package."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from stack.places import CHECKOUT
from tests.unit.mirror import UNIT, has_module, mirror_of, package_of

#: A longer file has more than one subject.
LINES_OF_A_FILE: Final = 600
#: Folders that mirror no package, and what their tests are about.
OUTSIDE: Final = {"deploy": "Dockerfile and docker-compose.yml"}
#: Tests of several modules: why they stand under the name of a subject, and the subjects, as paths below
#: ``tests/unit`` without ``test_`` and ``.py``. Their folder is that of the highest module that they use.
SUBJECTS: Final = {
    "the tree as a whole: names, layers, errors, exports and the places of tests": """
        error_tree exported_names layers names step_codes test_places
    """,
    "a page says what the code does": """
        contributing_page operations_page page_tables pages_index references bench/benchmarks_page
        changefeed/encoding/avro/avro_page changefeed/statement/envelopes_page cli/pages
        examples/connect_page raftlog/page_claims raftlog/page_source raftlog/spec_page serve/serve_page
        subscribe/subscribe_page
    """,
    "what subscriptions take of a server has bounds": """
        serve/kept_rows serve/shared/memory_of_streams serve/shared/long_statements
    """,
    "a feed ends, or its table changes, while subscriptions are open": """
        client/subscribe/changed_tables serve/served_feeds serve/shared/table_that_ends
        subscribe/changes/table_versions
    """,
    "random histories of topics, and consumers that crash anywhere": """
        client/subscribe/interrupted_calls client/subscribe/state/subscriptions_over_a_key_table
        subscribe/consistency subscribe/gate/gate_histories subscribe/hostile_topics
    """,
    "the whole site, as `make docs` builds it": "docsite/site",
    "what the tests themselves run on": """
        broker_watch class_archive dealing measured sampling made_once shared_broker
    """,
    "what is installed, and not imported by us": "supply/log4j",
    "exact bytes, or another reader of them, over all modules of a format": """
        changefeed/encoding/avro/compatibility changefeed/encoding/avro/goldens
        changefeed/encoding/avro/roundtrip changefeed/encoding/avro/schemas
        changefeed/encoding/connect/evolution changefeed/encoding/connect/golden
        changefeed/encoding/connect/round_trip changefeed/encoding/json/golden
        changefeed/encoding/json/golden_envelopes changefeed/encoding/json/other_parsers
        processor/stored_bytes rows/valueside/spatial_values
    """,
    "an option or a kind of row that every format knows": """
        changefeed/encoding/scanned_rows changefeed/statement/virtual_columns
    """,
    "what is stored or sent may be damaged or of others, whichever module reads it": """
        cli/records_that_break processor/flipped_bits processor/foreign_records processor/state_digest
        spark/changefeed/flipped_bits worker/markers/publishers_that_break worker/state/damaged_store
    """,
    "no text of any module shows a secret": "client/hidden_secrets hidden_fields",
    "a feed moves to another epoch, engine or cluster (docs/protocols: hand-over, accept-cluster)": """
        changefeed/lifecycle/accepted_clusters changefeed/lifecycle/hand_over
        processor/accepted_clusters spark/changefeed/accepted_clusters
    """,
    "registration.py divided by what a feed is: its tests are too many for one file": """
        changefeed/lifecycle/registration_of_epochs changefeed/lifecycle/registration_of_scans
    """,
    "changes_outside_log.py without a step: its tests are too many for one file": """
        processor/feeds/noted_mutations
    """,
    "Avro feeds, from the definition through the registry to the reader": "cli/avro_feeds client/avro_feeds",
    "logs of the simulated store keep the contract, whichever rule is broken": """
        logcheck/sound_logs sim/check_splits sim/mutations sim/store/splits
    """,
    "a range and its feeds in CockroachDB's model beside those of a worker": "rangefeed/two_kinds",
    "a whole step of a partition: what comes out of rows and when a checkpoint may speak of them": """
        processor/busy_backlogs processor/feeds/unwanted_versions processor/previous processor/promise
        processor/spilled_transactions processor/stores_that_begin_anew
        processor/tables_that_are_renamed processor/tables_that_go
        processor/tenants
    """,
    "ranges split, merge and are silent over several partitions (docs/protocols/healing.md)": """
        processor/cut_logs processor/feeds_amid_hand_offs processor/hand_off processor/keys_that_come_back
        processor/late_partitions processor/lost_ends processor/moving/healing_ranges_that_move
        processor/refused_chunks processor/silent_ranges processor/standing_scans
    """,
    "log time over a whole partition (docs/protocols/log-time.md)": "processor/log_time",
    "what a step costs over many ranges and feeds (docs/benchmarks.md)": "processor/wide_steps",
    "feeds that begin, catch up, are detached, go on or end in a partition (docs/protocols/catch-up.md)": """
        processor/catch_up processor/chunks_in_parts processor/dates_of_changes processor/detached_feeds
        processor/feeds_that_end_in_one_partition processor/feeds_that_fail_amid_a_step
        processor/feeds_that_go_on
        processor/gaps_of_detached_feeds processor/held_partitions
    """,
    "rounds of a query, driven in one process over random histories (docs/simulation.md)": """
        spark/backfill/sinks_of_backfills spark/changefeed/odd_logs spark/changefeed/old_states
        spark/changefeed/rows_that_break spark/changefeed/sinks_that_stall
        spark/changefeed/steps_that_break
    """,
    "feeds of a query that begin in one batch (docs/protocols/spark-rounds.md)": """
        spark/changefeed/feeds_that_begin_together
    """,
    "topics that feeds have one after the other (docs/protocols/topics-that-change-owners.md)": """
        spark/warehouse/feeds_that_end
    """,
    "tables that cannot go on, or would become others (docs/warehouse.md)": "spark/warehouse/loads_that_stop",
    "any single change of a stream of records is found": "verify/mutations",
    "random histories with the kernel and without it": "kernel/lockstep",
    "the steps of the commit loop with its sinks, ids and stores (docs/protocols)": """
        worker/commit/commit_loop_edges worker/commit/detached_batches worker/commit/given_up_batches
        worker/commit/letting_go worker/commit/messages_while_ids_are_asked_for
        worker/commit/raise_anywhere worker/commit/refused_rows worker/commit/replaced_producers
        worker/commit/rows_without_ids worker/commit/slow_sinks worker/commit/spooled_feeds
    """,
    "a feed's markers and its progress go to two clusters": "worker/markers/markers_elsewhere",
}


def subjects() -> list[str]:
    return [name for names in SUBJECTS.values() for name in names.split()]


def files_of_tests(root: Path) -> Iterator[Path]:
    """Every test file below ``tests/unit``, as a path below it."""
    for file in sorted((root / UNIT).rglob("test_*.py")):
        yield file.relative_to(root / UNIT)


def subject_of(file: Path) -> str:
    return file.with_name(file.stem.removeprefix("test_")).as_posix()


def strays(root: Path, listed: list[str]) -> list[str]:
    """Test files that neither have a module of their name nor are listed as subjects."""
    return [
        file.as_posix()
        for file in files_of_tests(root)
        if file.parts[0] not in OUTSIDE and not has_module(root, file) and subject_of(file) not in listed
    ]


def too_long(root: Path) -> list[str]:
    return [
        file.as_posix()
        for file in files_of_tests(root)
        if len((root / UNIT / file).read_text().splitlines()) > LINES_OF_A_FILE
    ]


def taken_from_tests(root: Path) -> list[str]:
    """Imports of one test file in another file of the tests: moving the one would break the other."""
    return [
        f"{file.relative_to(root)}: {node.module}"
        for file in sorted((root / "tests").rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module and ".test_" in node.module
    ]


def test_a_test_file_has_the_name_of_its_module_or_of_a_listed_subject() -> None:
    assert strays(CHECKOUT, subjects()) == []


def test_every_listed_subject_is_there_and_is_no_module() -> None:
    there = {subject_of(file) for file in files_of_tests(CHECKOUT) if not has_module(CHECKOUT, file)}
    assert [name for name in subjects() if name not in there] == []
    assert len(subjects()) == len(set(subjects()))


def test_every_folder_of_tests_mirrors_one_of_the_product() -> None:
    folders = {file.parent for file in files_of_tests(CHECKOUT)} - {Path(name) for name in OUTSIDE}
    assert [folder for folder in sorted(folders) if package_of(CHECKOUT, folder) is None] == []


def test_no_test_file_has_more_than_one_subject_by_its_length() -> None:
    assert too_long(CHECKOUT) == []


@pytest.mark.long
def test_nothing_is_imported_from_a_test_file() -> None:
    assert taken_from_tests(CHECKOUT) == []


@pytest.mark.parametrize(
    ("file", "stray"),
    [
        ("ranges/test_resolver.py", False),
        ("ranges/test_resolving.py", True),
        ("ranges/test_protocol.py", False),
        ("spark/test_resolver.py", True),
        ("test_resolver.py", True),
        ("sim/test_clock.py", False),
        ("deploy/test_compose.py", False),
    ],
)
def test_a_test_file_in_another_place_is_found(tmp_path: Path, file: str, stray: bool) -> None:
    for module in ("tidegate/ranges/resolver.py", "sim/clock.py", f"{UNIT}/{file}"):
        (tmp_path / module).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / module).write_text("")
    assert strays(tmp_path, ["ranges/protocol"]) == [file] * stray


def test_a_test_file_that_is_too_long_is_found(tmp_path: Path) -> None:
    (tmp_path / UNIT).mkdir(parents=True)
    for name, lines in (("test_names.py", LINES_OF_A_FILE), ("test_layers.py", LINES_OF_A_FILE + 1)):
        (tmp_path / UNIT / name).write_text("\n" * lines)
    assert too_long(tmp_path) == ["test_layers.py"]


def test_an_import_from_a_test_file_is_found(tmp_path: Path) -> None:
    file = tmp_path / UNIT / "test_names.py"
    file.parent.mkdir(parents=True)
    file.write_text("from tests.unit.test_layers import made\nfrom tests.unit.made import other\n")
    assert taken_from_tests(tmp_path) == ["tests/unit/test_names.py: tests.unit.test_layers"]


@pytest.mark.parametrize(
    ("module", "tests"),
    [
        ("tidegate/ranges/resolver.py", "tests/unit/ranges/test_resolver.py"),
        ("tidegate/processor/feeds/emitter.py", "tests/unit/processor/feeds/test_emitter.py"),
        ("tidegate/hlc.py", "tests/unit/test_hlc.py"),
        ("app/logs.py", "tests/unit/app/test_logs.py"),
    ],
)
def test_a_module_has_its_tests_in_the_folder_that_mirrors_its_own(module: str, tests: str) -> None:
    assert mirror_of(Path(module)) == Path(tests)


def test_the_mirror_goes_both_ways() -> None:
    """A file that counts as a module's is the file that the module asks for."""
    for file in files_of_tests(CHECKOUT):
        package = package_of(CHECKOUT, file.parent)
        if package is not None and has_module(CHECKOUT, file):
            module = package / f"{file.stem.removeprefix('test_')}.py"
            assert mirror_of(module.relative_to(CHECKOUT)) == UNIT / file
