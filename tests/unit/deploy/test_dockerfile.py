from __future__ import annotations

import re
import tomllib

import pytest

from stack.places import CHECKOUT

LINES = (CHECKOUT / "Dockerfile").read_text().replace("\\\n", " ").splitlines()
PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())


def arguments(instruction: str) -> list[list[str]]:
    return [line.split()[1:] for line in LINES if line.startswith(instruction + " ")]


def copied() -> list[str]:
    """Return what is copied out of the checkout."""
    return [path for words in arguments("COPY") if "--from=build" not in words for path in words[:-1]]


@pytest.mark.parametrize("path", copied())
def test_what_is_copied_exists_and_is_not_ignored(path: str) -> None:
    assert (CHECKOUT / path).exists()
    assert f"!{path}" in (CHECKOUT / ".dockerignore").read_text().splitlines()


def test_all_that_the_wheel_holds_is_copied() -> None:
    wheel = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = {*wheel["only-include"], PROJECT["project"]["readme"], *PROJECT["project"]["license-files"]}
    assert needed <= set(copied())


def test_the_image_has_nothing_but_the_installed_wheel() -> None:
    image = LINES[max(at for at, line in enumerate(LINES) if line.startswith("FROM ")) :]
    assert [line for line in image if line.startswith("COPY ")] == [
        "COPY --from=build /opt/tidegate /opt/tidegate"
    ]
    assert not [line for line in image if "PYTHONPATH" in line]


def test_everything_is_installed_with_hashes() -> None:
    """But for the project itself, which is built from the tree with a backend that was."""
    pips = [command.strip() for line in LINES for command in line.split("&&") if "/bin/pip " in command]
    *hashed, build, project = pips
    assert [command.split()[-1] for command in hashed] == [
        "requirements/build.txt",
        "requirements/worker.txt",
    ]
    assert all("--require-hashes --only-binary :all:" in command for command in hashed)
    assert all("--no-build-isolation" in command for command in hashed[1:])
    assert "--no-deps --no-build-isolation" in build
    assert "--no-deps --no-index" in project


def test_the_worker_does_not_run_as_root() -> None:
    assert arguments("USER")[-1] == ["tidegate"]


def test_the_worker_is_what_runs() -> None:
    assert LINES[-1] == 'CMD ["tidegate", "worker"]'


def test_images_are_named_without_a_registry() -> None:
    assert {words[0] for words in arguments("FROM")} == {"${PYTHON_IMAGE}"}
    images = [words[0].partition("=")[2] for words in arguments("ARG")]
    assert images == ["python:3.11-slim"]
    assert not [image for image in images if re.match(r"[^/]*[.:][^/]*/", image)]
