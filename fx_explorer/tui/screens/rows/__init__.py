"""What the small screens show, as rows. There are no widgets here, so that rows are tested as
data.
"""
