-- An order costs what its lines cost. A cent of difference means that a line got lost, is there
-- twice, or is in another currency than the order's total. What couldn't be parsed is null, and is
-- reported where it was read.
with lines as (
    select
        order_id,
        count(*) as line_count,
        sum(line_amount) as lines_amount
    from {{ ref('curated_order_items') }}
    where not is_deleted
    group by order_id
)

select
    orders.order_id,
    orders.total_amount,
    lines.lines_amount,
    orders.item_count,
    lines.line_count
from {{ ref('curated_orders') }} as orders
left join lines on orders.order_id = lines.order_id
where
    orders.total_amount <> coalesce(lines.lines_amount, 0)
    or orders.item_count <> coalesce(lines.line_count, 0)
