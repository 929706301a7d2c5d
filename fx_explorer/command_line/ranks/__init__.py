"""What commands about the ranks of a job share."""
