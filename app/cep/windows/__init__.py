"""How far time has come."""
