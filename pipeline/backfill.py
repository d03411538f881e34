"""``spark-submit pipeline/backfill.py``: a Spark job that writes a feed's past from the log itself.

It does the same as ``tidegate spark backfill``, and takes the same options.
"""

from __future__ import annotations

import sys

from tidegate.cli.spark import spark

if __name__ == "__main__":
    spark(["backfill", *sys.argv[1:]])
