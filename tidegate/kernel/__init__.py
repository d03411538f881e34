"""Runs native code of the step: ``kernel/`` has its source, this package its artefact (docs/kernel.md)."""
