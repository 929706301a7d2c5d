"""The program as a whole, measured: whether compiling pays, and where the time of a call goes."""
