"""The sections of the JSON report, a file each. A section is plain data, made of what ``analysis``
says.
"""
