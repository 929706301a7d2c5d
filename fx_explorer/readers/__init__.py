"""This package has the readers, which make sessions from files of other programs: one module or
package per format.

A reader needs no torch, trusts nothing it reads, runs nothing, and changes nothing but the session
it writes.
"""
