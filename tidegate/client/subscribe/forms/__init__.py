"""Batches in the forms that programs and notebooks want: dicts, Arrow, polars, pandas, HTML, net changes."""
