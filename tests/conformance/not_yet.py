"""Cases that fail for now, each with what is missing.  The list only gets shorter."""

NOT_YET: dict[str, str] = {
    "holistic-median-01-spark": "median()",
    "holistic-distinct-04-spark-two-columns": "a plain function as aggregate",
    "lateness-session-04-zero-purging": "early and discarding panes of sessions",
    "lateness-session-08-huge-purging": "early and discarding panes of sessions",
    "misc-null-key-08-ks": "early and discarding panes of sessions",
    "misc-processing-time-22-flink": "processing_time()",
    "session-count-13-ks-no-early-merge-across-keys": "early and discarding panes of sessions",
    "trigger-05-sessions-early-late": "early and discarding panes of sessions",
}
