"""The warehouse loader: output topics of changefeeds as tables of closed buckets (docs/warehouse.md)."""
