{{ rejected_rows(ref('raw_orders')) }}
