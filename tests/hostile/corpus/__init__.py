"""Every input that ever broke something: what it is, what it broke, and the named outcome that it has now.

A chapter is a module: rows, entries of the log, texts, definitions of feeds, records of output topics. An
input that breaks something new is added to its chapter before the defect is mended, and stays.
"""
