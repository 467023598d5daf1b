{{ rejected_rows(ref('raw_room_data')) }}
