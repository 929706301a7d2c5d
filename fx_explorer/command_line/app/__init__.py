"""How the app is started: on what it is shown, in which colours, and what is printed where there is no terminal."""
