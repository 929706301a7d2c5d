"""Work that takes long, and changes of the screen: beside each other, or one after the other."""
