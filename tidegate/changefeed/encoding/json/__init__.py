"""Rows as JSON: keys, members, templates, and the parts that several envelopes share."""
