"""PTX, SASS and AMDGCN, instruction by instruction: what each does, costs and keeps in
registers.
"""
