"""``spark-submit pipeline/backfill.py``: a feed's past from the log itself, as a Spark job.

The same as ``tidegate spark backfill``, whose options it takes.
"""

from __future__ import annotations

import sys

from tidegate.cli.spark import spark

if __name__ == "__main__":
    spark(["backfill", *sys.argv[1:]])
