{{ rejected_rows(ref('raw_customers')) }}
