"""``spark-submit pipeline/changefeed.py``: the feeds of an application as a Spark query.

The same as ``tidegate spark changefeed``, whose options it takes.
"""

from __future__ import annotations

import sys

from tidegate.cli.spark import spark

if __name__ == "__main__":
    spark(["changefeed", *sys.argv[1:]])
