"""``npc compare``: platforms, nights, MPI implementations or tools side by side, series by series.

`sides` says what is compared, `pairs` which series belong together and why others do not, `difference` what
two samples tell about their ratio, `outputs` and `plots` how it is shown.
"""
