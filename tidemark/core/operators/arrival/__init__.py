"""Windows in order of arrival and rolling aggregates: functions of the log, where no row is late.

May import: core.operators and everything below.
Start with: operator.py; body.py has what the discarding form shares with it.
"""
