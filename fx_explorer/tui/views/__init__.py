"""What the views 3 to 9 show, as plain tables made from analysis: no widgets here, so that they are tested as data."""
