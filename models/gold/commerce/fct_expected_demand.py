"""Expected demand; in Python since each day builds on the last. One row per product and day."""

import pandas
from pyspark.sql import functions

SCHEMA = "product_id string, sold_on date, units_sold bigint, units_expected double"


def model(dbt, spark):
    items = dbt.ref("curated_order_items")
    sold = items.where(
        "not is_deleted and order_status <> 'cancelled' and ordered_at is not null"
        " and quantity is not null"
    )
    return expect_demand(sold, dbt.config.meta_get("memory_days"))


def expect_demand(items, memory_days):
    """Smooth each product's daily units; what is expected of a day knows only the days before."""
    daily = items.groupBy("product_id", items.ordered_at.cast("date").alias("sold_on")).agg(
        functions.sum("quantity").alias("units_sold")
    )

    def smooth(days):
        sold = days.set_index(pandas.to_datetime(days["sold_on"]))["units_sold"]
        # A day without a sale is a day of zero, not a day that didn't happen.
        sold = sold.sort_index().asfreq("D", fill_value=0)
        return pandas.DataFrame(
            {
                "product_id": days["product_id"].iloc[0],
                "sold_on": sold.index.date,
                "units_sold": sold.to_numpy(),
                "units_expected": sold.ewm(span=memory_days).mean().shift().to_numpy(),
            }
        )

    return daily.groupBy("product_id").applyInPandas(smooth, SCHEMA)
