"""The project's packages, jars and archives, and proof that they are the ones that were chosen.

``make pins`` writes what may be installed and downloaded, ``make sbom`` the bill of materials
``sbom.cdx.json``, and ``make supply`` compares both with what is installed:
docs/security.md#packages-and-archives.
"""
