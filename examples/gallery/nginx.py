"""Log of nginx: requests and errors of each minute, and the slowest path."""

from tidemark import Pipeline, bounded, col, count, max_by, tumbling

_LINE = r'^(\S+) \S+ \S+ \[([^\]]+)\] "(\w+) (\S+) [^"]*" (\d{3}) (\d+) ([\d.]+)$'

nginx = Pipeline("nginx")

requests = nginx.source(
    "nginx-access",
    schema={"value": str},
    format="text",
    event_time=col("value").str.extract(_LINE, 2).str.to_datetime("%d/%b/%Y:%H:%M:%S %z"),
    watermark=bounded("5s"),
    idle_after="10s",
).with_columns(
    path=col("value").str.extract(_LINE, 4),
    status=col("value").str.extract(_LINE, 5).cast(int),
    seconds=col("value").str.extract(_LINE, 7).cast(float),
)

requests.key_by().window(tumbling("1m")).aggregate(
    requests=count(),
    errors=count(where=col("status") >= 500),
    slowest=max_by("path", "seconds"),
).to("requests-per-minute")
