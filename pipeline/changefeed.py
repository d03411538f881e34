"""``spark-submit pipeline/changefeed.py``: a Spark query that runs the feeds of an application.

It does the same as ``tidegate spark changefeed``, and takes the same options.
"""

from __future__ import annotations

import sys

from tidegate.cli.spark import spark

if __name__ == "__main__":
    spark(["changefeed", *sys.argv[1:]])
