"""Taxi trips: fares and tips of each zone in the last half hour, every fifteen minutes."""

from tidemark import Pipeline, bounded, col, count, csv, hopping, mean, sum

taxis = Pipeline("taxis")

trips = taxis.source(
    "trips",
    schema={
        "tpep_pickup_datetime": str,
        "tpep_dropoff_datetime": str,
        "PULocationID": int,
        "fare_amount": float,
        "tip_amount": float,
    },
    format=csv(
        [
            "VendorID", "tpep_pickup_datetime", "tpep_dropoff_datetime", "passenger_count",
            "trip_distance", "PULocationID", "DOLocationID", "fare_amount", "tip_amount",
        ]
    ),
    event_time="tpep_dropoff_datetime",
    unit="%Y-%m-%d %H:%M:%S",
    zone="America/New_York",
    watermark=bounded("10m"),
).filter(col("fare_amount") > 0)  # fmt: skip

trips.key_by("PULocationID").window(hopping("30m", "15m"), allowed_lateness="1h").aggregate(
    trips=count(), fares=sum("fare_amount"), mean_tip=mean("tip_amount")
).to("fares-by-zone")
