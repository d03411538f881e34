"""``stack/pinned.toml``: every file that a recipe asks for, with its SHA-256."""

from __future__ import annotations

import re
from itertools import chain
from pathlib import Path

import pytest

from stack.downloads.jars import JarSet
from stack.downloads.spark_connector import VERSIONS
from stack.errors import DownloadFailed
from stack.pinned import PINNED_FILE, check_download, pinned
from supply.stack_pins import ARCHIVES, JAR_SETS, text_of
from tests.unit.supply.pins import version_of


@pytest.mark.parametrize("jars", JAR_SETS, ids=lambda jars: jars.label)
def test_every_set_of_a_recipe_is_pinned(jars: JarSet) -> None:
    assert set(jars.roots) <= pinned().jars_of(jars.label, jars.roots).keys()


def test_nothing_else_is_pinned() -> None:
    assert set(pinned().jars) == {jars.label for jars in JAR_SETS}
    assert set(pinned().archives) == set(map(str, ARCHIVES))


def test_every_file_has_a_sha256() -> None:
    digests = list(chain(pinned().archives.values(), *(jars.values() for jars in pinned().jars.values())))
    assert len(digests) > 100
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in digests)


def test_a_file_has_one_sha256_in_all_sets() -> None:
    found: dict[str, set[str]] = {}
    for jars in pinned().jars.values():
        for coordinate, digest in jars.items():
            found.setdefault(str(coordinate), set()).add(digest)
    assert not [name for name, digests in found.items() if len(digests) > 1]


def test_two_jars_of_a_set_have_not_the_same_name() -> None:
    for jars in pinned().jars.values():
        names = [coordinate.file_name for coordinate in jars]
        assert len(set(names)) == len(names)


def test_the_connector_of_the_pinned_pyspark_is_pinned() -> None:
    assert version_of("pyspark") in VERSIONS


@pytest.mark.parametrize("name", ["kafka-4.1.0", "connect-4.1.0"])
def test_log4j_is_one_release_in_all_its_parts(name: str) -> None:
    log4j = {each for each in pinned().jars[name] if each.group == "org.apache.logging.log4j"}
    assert {each.version for each in log4j} == {"2.26.1"}
    assert {each.artifact for each in log4j} >= {"log4j-api", "log4j-core", "log4j-slf4j-impl"}


def test_the_file_names_no_repository() -> None:
    assert "//" not in PINNED_FILE.read_text()


def test_the_file_is_in_the_form_that_make_pins_writes() -> None:
    tables = {
        f'jars."{label}"': {str(name): digest for name, digest in jars.items()}
        for label, jars in pinned().jars.items()
    }
    tables["archives"] = dict(pinned().archives)
    assert text_of(tables) == PINNED_FILE.read_text()


def test_a_file_that_never_came_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(DownloadFailed, match=r"lost.jar never came"):
        check_download(tmp_path / "lost.jar", "0" * 64)
