"""``npc compare``: platforms, nights, MPI implementations or tools side by side, series by series.

`sides` says what is compared, `matching` which series belong together and why others do not, `difference`
what two samples tell about their ratio, `comparison` what is better or worse; `table`, `remarks`, `outputs`
and `plots` show it.
"""
