"""What the views that are tables show, as plain tables made from analysis: no widgets here, so that they are tested as data."""
