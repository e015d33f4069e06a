"""The web console: pages that show a network of brokers at work, and answer why.

`doors.py` opens it beside a broker's gateways; `app.py` is what is served; `static/` are its pages, which
load nothing from anywhere else.
"""
