"""``report --format html``: one file that is the session, to be opened in a browser.

``page.py`` writes the file, ``linked_texts.py`` has the texts of the linked view and which lines
of them belong together, ``../sections.py`` the views as tables. ``page.html``, ``page.css`` and
``page.js`` are what the browser gets; everything that is computed is computed here.
"""
