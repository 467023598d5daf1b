{{ rejected_rows(ref('raw_readings')) }}
