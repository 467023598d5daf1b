"""Units sold and expected; in Python since each day builds on the last. Grain: product and day."""

SCHEMA = "product string, sold_on date, units_sold bigint, units_expected double"
MEMORY_DAYS = 3


def model(dbt, spark):
    return expect_sales(dbt.ref("curated_orders"))


def expect_sales(orders):
    daily = (
        orders.groupBy("product", "ordered_on")
        .agg({"quantity": "sum"})
        .toDF("product", "sold_on", "units_sold")
    )

    def smooth(days):
        days = days.sort_values("sold_on")
        expected = days["units_sold"].ewm(span=MEMORY_DAYS).mean().shift()
        return days.assign(units_expected=expected)

    return daily.groupBy("product").applyInPandas(smooth, SCHEMA)
