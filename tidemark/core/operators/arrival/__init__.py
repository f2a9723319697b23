"""Windows in order of arrival and rolling aggregates: functions of the log, without late rows.

May import: core.operators and everything below.
Start with: operator.py; discarding.py has discarding panes, body.py the common part.
"""
