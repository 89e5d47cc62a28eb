"""Before anything is rented: what a draft would gain, read from answers that are logged already."""
