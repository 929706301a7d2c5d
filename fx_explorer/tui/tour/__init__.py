"""The guided tour: what each step says, when it is done, and the panel that shows it above the real
app.
"""
