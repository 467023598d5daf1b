"""Makes landing data as an upstream would drop it: the same options give the same bytes."""
