"""The bill of materials, ``sbom.cdx.json``: CycloneDX 1.6 in JSON.

It is made from what is pinned, not from a machine, and has neither a time nor a serial number. Made twice,
the file has the same bytes. So it can be kept in the tree, where each change of it is seen.
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any, Final

from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from stack.pinned import pinned
from stack.places import CHECKOUT
from supply import components
from supply.requirements import ALL, read

SBOM_FILE: Final = CHECKOUT / "sbom.cdx.json"


def document(checkout: Path = CHECKOUT) -> str:
    """Return the text of ``sbom.cdx.json``."""
    bom = Bom()
    bom.metadata.component = _project(checkout)
    bom.components.update(map(components.python_package, read(checkout / ALL).values()))
    bom.components.update(components.jars(pinned()))
    bom.components.update(components.archives(pinned()))
    bom.components.add(components.data())
    bom.register_dependency(bom.metadata.component, bom.components)
    tree: dict[str, Any] = json.loads(JsonV1Dot6(bom).output_as_string())
    del tree["serialNumber"], tree["metadata"]["timestamp"]
    del tree["dependencies"]  # it would say that no part needs another; which needs which is not listed
    return json.dumps(tree, indent=1, sort_keys=True) + "\n"


def _project(checkout: Path) -> Component:
    project = tomllib.loads((checkout / "pyproject.toml").read_text())["project"]
    url = PackageURL("pypi", None, project["name"], project["version"])
    return Component(
        name=project["name"],
        version=project["version"],
        type=ComponentType.APPLICATION,
        purl=url,
        bom_ref=url.to_string(),
    )
