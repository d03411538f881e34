"""``spark-submit pipeline/warehouse.py``: a Spark job that makes tables of closed buckets of output topics.

It does the same as ``tidegate spark load``, and takes the same options.
"""

from __future__ import annotations

import sys

from tidegate.cli.spark import spark

if __name__ == "__main__":
    spark(["load", *sys.argv[1:]])
