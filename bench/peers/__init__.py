"""Other software on tidegate's job, side by side: ``make bench BENCH="--only peers"``."""
