"""The functions of Amanda: load, save, convert, compile, run, improve.

Each accepts a `host`, whose plug-ins it uses; otherwise the host in use, which is
`default_host()` outside of such calls. The package `amanda` is their face:
`amanda.load(...)`.
"""
