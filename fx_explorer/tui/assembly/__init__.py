"""How PTX, SASS and AMDGCN are shown in a pane: in columns, with what the machine's code says beside them."""
