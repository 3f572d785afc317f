"""Events and partial matches as shedders see them: what kind of event, which items it can be, its partition and its values; where a partial match stands, and what it has bound."""
