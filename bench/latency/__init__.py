"""The time from when a record is due to when a reader of committed records has its row."""
