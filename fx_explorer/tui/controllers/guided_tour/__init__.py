"""The guided tour as it goes on: the app is looked at, and the next step is said."""
