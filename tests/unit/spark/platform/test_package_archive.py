"""The archive that executors import tidegate from."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

from tidegate.spark.platform.package_archive import write_archive


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
