"""``report --format html``: one file that is the session, to be opened in a browser.

``page.py`` writes the file, ``linked_texts.py`` has the texts of the linked view and which lines
of them belong together, ``level_texts.py`` those below a kernel, ``drawn_graphs.py`` the graphs as
nested boxes, ``pictures.py`` the pictures of views, ``../sections.py`` the views as tables, and
``difference.py`` the page of two sessions. The browser gets ``page.html``, ``page.css`` and the
scripts that ``page.py`` lists as one; everything that is computed is computed here.
"""
