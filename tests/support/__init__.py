"""What tests of several folders share: drawn event logs, operators at work, hostile records.

No module here is a test or an oracle.  Start with ``logs`` (what properties draw) and ``running``
(one operator on one log partition, with restores and purges).
"""
