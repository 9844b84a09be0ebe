"""What Amanda does, as functions: load, save, convert, compile, run, improve.

Each accepts a `host`, whose plug-ins it uses; without one it is `default_host()`. The
package `amanda` is their face: `amanda.load(...)`.
"""
