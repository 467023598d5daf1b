"""What people who don't write SQL are told: can I use the data today, and why."""
