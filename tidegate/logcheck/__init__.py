"""Checks a log against the log contract: reads it as anyone could, and says where it breaks a rule.

The check knows nothing of the store that wrote the log, so that the two can disagree. ``tidegate debug
check-log`` runs it on a topic. The tests of the simulated store run it on what that store writes.
"""
