"""The analytical model of notification loss (Virgillito 2003, section 3.2), in corrected form.

`delays` says how long a subscription or an event takes to reach a broker, `probability` how
likely an event is to be notified, `fit` finds the rates of a run, `montecarlo` checks the
formulas by drawing, and `printed` keeps the forms of the text that are wrong, for studies.
"""
