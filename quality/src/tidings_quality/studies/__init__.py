"""Studies of data quality; they need tidings-lab."""
