"""What shedding costs a query: shedders trained and held against the unshedded truth on recorded events. Pure; `cep train` and `cep evaluate` print it."""
