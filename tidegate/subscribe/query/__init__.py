"""Queries over one relation: expressions with values, filters, columns, and the first rows of an order."""
