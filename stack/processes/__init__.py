"""Server processes: started, owned, told apart, ended."""
