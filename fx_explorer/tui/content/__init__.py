"""Functions of a session give what the screen shows, as rows, words and documents. Nothing here is
a widget, so that it is tested as data.
"""
