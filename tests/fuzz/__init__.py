"""Fuzzing: inputs without an end for whatever reads what others write (docs/security.md#fuzzing).

A module of `targets` has what reads, and inputs that it can read. Mutators damage those. `python -m
tests.fuzz` gives the targets such inputs for as long as it is told, and prints what is not as it should be.
"""
