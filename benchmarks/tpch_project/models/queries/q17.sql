-- Q17, the small-quantity-order revenue.
select sum(l_extendedprice) / 7.0 as avg_yearly
from {{ ref('lineitem') }}, {{ ref('part') }}
where
    p_partkey = l_partkey
    and p_brand = 'Brand#23'
    and p_container = 'MED BOX'
    and l_quantity < (
        select 0.2 * avg(l_quantity)
        from {{ ref('lineitem') }}
        where l_partkey = p_partkey
    )
