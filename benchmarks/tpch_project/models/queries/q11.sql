-- Q11, the important stock identification; its fraction is by the scale factor.
select
    ps_partkey,
    sum(ps_supplycost * ps_availqty) as stock_value
from {{ ref('partsupp') }}, {{ ref('supplier') }}, {{ ref('nation') }}
where
    ps_suppkey = s_suppkey
    and s_nationkey = n_nationkey
    and n_name = 'GERMANY'
group by ps_partkey
having
    sum(ps_supplycost * ps_availqty) > (
        select sum(ps_supplycost * ps_availqty) * {{ '%.10f' % (0.0001 / var('scale')) }}
        from {{ ref('partsupp') }}, {{ ref('supplier') }}, {{ ref('nation') }}
        where
            ps_suppkey = s_suppkey
            and s_nationkey = n_nationkey
            and n_name = 'GERMANY'
    )
order by stock_value desc
