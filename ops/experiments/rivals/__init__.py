"""Shedders of other papers that are compared with and not offered: ICDE'20 (`classes`), SHARP (`sketch`), DARLING (`satisfiability`)."""
