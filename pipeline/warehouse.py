"""``spark-submit pipeline/warehouse.py``: output topics of changefeeds as tables of closed buckets.

The same as ``tidegate spark load``, whose options it takes.
"""

from __future__ import annotations

import sys

from tidegate.cli.spark import spark

if __name__ == "__main__":
    spark(["load", *sys.argv[1:]])
