"""The archive that executors import tidegate from."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

from tidegate.spark.platform.package_archive import running_code, write_archive


def test_a_python_imports_the_tasks_of_all_jobs_and_the_kernel_from_it(tmp_path: Path) -> None:
    archive = tmp_path / "tidegate.zip"
    write_archive(archive)
    code = (
        "import tidegate\n"
        "import tidegate.spark.backfill.backfill\n"
        "import tidegate.spark.changefeed.partition_round\n"
        "import tidegate.spark.warehouse.partition_task\n"
        "from tidegate.kernel.artefact import HASH_PATH, PATH\n"
        "from hashlib import sha256\n"
        "assert sha256(PATH.read_bytes()).hexdigest() == HASH_PATH.read_text().split()[0]\n"
        "print(tidegate.__file__)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(archive)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.stdout.strip() == str(archive / "tidegate" / "__init__.py"), ran.stderr


def test_the_same_package_makes_the_same_bytes(tmp_path: Path) -> None:
    count = write_archive(tmp_path / "one.zip")
    write_archive(tmp_path / "two.zip")
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()
    with zipfile.ZipFile(tmp_path / "one.zip") as archive:
        assert count == len(archive.namelist())
        assert {name.split("/")[0] for name in archive.namelist()} == {"tidegate"}
        assert not any("__pycache__" in name for name in archive.namelist())


def test_the_same_code_has_the_same_digest_however_it_travels(tmp_path: Path) -> None:
    archive, installed = tmp_path / "tidegate.zip", tmp_path / "site-packages"
    write_archive(archive)
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(installed)
    for name in ("service/app/job.py", "__pycache__/errors.cpython-311.pyc", "py.typed"):  # of a wheel
        added = installed / "tidegate" / name
        added.parent.mkdir(parents=True, exist_ok=True)
        added.touch()
    ours = running_code()
    assert _digest_at(archive) == _digest_at(installed) == ours.digest
    (installed / "tidegate" / "errors.py").write_bytes(b"# newer")
    assert _digest_at(installed) != ours.digest


def test_an_archive_is_packed_from_an_archive(tmp_path: Path) -> None:
    """As where `spark-submit --py-files` has the driver run from one."""
    write_archive(tmp_path / "one.zip")
    code = (
        "from pathlib import Path; from tidegate.spark.platform.package_archive import write_archive as write"
    )
    _run(tmp_path / "one.zip", f"{code}; write(Path('two.zip'))")
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()


def _digest_at(place: Path) -> str:
    """The digest of a Python that imports tidegate from there."""
    code = "from tidegate.spark.platform.package_archive import running_code; print(running_code().digest)"
    return _run(place, code)


def _run(place: Path, code: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(place)},
        cwd=place.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert not ran.returncode, ran.stderr
    return ran.stdout.strip()
