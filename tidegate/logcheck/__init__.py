"""The log contract, checked: reads a log as anyone could, and says where it breaks a rule.

It knows nothing of the store that wrote the log, so that the two can disagree. ``tidegate debug check-log``
runs it over a topic, the simulated store's tests over what that store writes.
"""
