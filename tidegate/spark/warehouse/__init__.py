"""The warehouse loader, which makes tables of closed buckets from feeds' output topics
(docs/warehouse.md).
"""
