"""What is unusual about a table's newest rows, told from its snapshots and manifests."""
