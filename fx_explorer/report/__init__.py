"""Reports describe a session to somebody who is not looking at the app: documents made from the
answers of ``fx_explorer.analysis``.
"""
