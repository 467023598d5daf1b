{{ rejected_rows(ref('raw_products')) }}
