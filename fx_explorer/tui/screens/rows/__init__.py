"""What the screens of their own show, as rows: no widgets here, so that they are tested as data."""
