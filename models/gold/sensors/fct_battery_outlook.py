"""When a battery will be low; in Python for numpy's line fit. One row per device."""

import numpy
import pandas

SCHEMA = """
    device_id string, last_reading_at timestamp, battery_pct double,
    drain_pct_per_day double, low_in_days double
"""


def model(dbt, spark):
    readings = dbt.ref("curated_readings").where("battery_pct is not null")
    thresholds = dbt.ref("device_thresholds").where("metric = 'battery_pct'")
    return outlook(readings, thresholds.first()["lowest_healthy"])


def outlook(readings, low_battery_pct):
    """Fit a line to each device's charge; one that doesn't drain has no day when it is low."""

    def fit(device):
        device = device.sort_values("reading_at")
        days = (device["reading_at"] - device["reading_at"].iloc[0]).dt.total_seconds() / 86_400
        slope = numpy.polyfit(days, device["battery_pct"], 1)[0] if days.iloc[-1] > 0 else 0.0
        left = max(device["battery_pct"].iloc[-1] - low_battery_pct, 0.0)
        return pandas.DataFrame(
            {
                "device_id": device["device_id"].iloc[:1],
                "last_reading_at": device["reading_at"].iloc[-1],
                "battery_pct": device["battery_pct"].iloc[-1],
                "drain_pct_per_day": -slope,
                "low_in_days": left / -slope if slope < 0 else None,
            }
        )

    columns = ["device_id", "reading_at", "battery_pct"]
    return readings.select(columns).groupBy("device_id").applyInPandas(fit, SCHEMA)
